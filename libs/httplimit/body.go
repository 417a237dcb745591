package httplimit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"text/template"
)

// BodyMax bounds a template of a body, and what it makes, in bytes.
const BodyMax = 64 << 10

// Body is the body of refusals in words of one's own, made from a template. It is
// safe for concurrent use.
type Body struct {
	contentType string
	template    interface{ Execute(io.Writer, any) error }
}

// bodyFields is what a template can use.
type bodyFields struct {
	Status     int      // 429
	Code       string   // a constant of this package, as rate_limited
	Title      string   // the same for each refusal of a kind
	Detail     string   // what was refused and why, in a sentence
	Rules      []string // ids of the rules that refused, the first one first
	RetryAfter int64    // seconds, as Retry-After says; 0 where no waiting helps
}

// samples are what a template has to manage: ids and sentences with all that has
// to be escaped, with and without a wait.
var samples = [...]bodyFields{
	{429, CodeRateLimited, quotaExceededTitle, `Limit "a" (10/s burst 20) is <used> & up.`, []string{"a", "b"}, 7},
	{429, CodeCostAboveLimit, quotaExceededTitle, `The request costs 10 and limit "a" never holds more than 5.`, []string{"a"}, 0},
	{429, CodeBanned, quotaExceededTitle, `An override of limit "a" refuses this caller.`, []string{"a"}, 0},
}

// ParseBody reads a template of Go's text/template, or for a Content-Type of
// text/html of html/template. Beside the language's own functions it has "json",
// which writes a value as JSON. The template is tried: an error says what does not
// work, or that its output is not the JSON that the Content-Type promises.
func ParseBody(text, contentType string) (*Body, error) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(media, "/") {
		return nil, fmt.Errorf("content type %q: want one as application/json or text/html; charset=utf-8", contentType)
	}
	if len(text) > BodyMax {
		return nil, fmt.Errorf("template has %d bytes: at most %d are allowed", len(text), BodyMax)
	}
	b := &Body{contentType: contentType}
	functions := map[string]any{"json": toJSON}
	if media == "text/html" {
		b.template, err = htmltemplate.New("body").Funcs(functions).Parse(text)
	} else {
		b.template, err = template.New("body").Funcs(functions).Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("template cannot be read: %w", err)
	}
	for i := range samples {
		made, err := b.make(&samples[i])
		if err != nil {
			return nil, fmt.Errorf("template fails for code %q: %w", samples[i].Code, err)
		}
		if (media == "application/json" || strings.HasSuffix(media, "+json")) && !json.Valid(made) {
			return nil, fmt.Errorf("template makes no valid JSON for code %q (write texts as {{json .Detail}}, without quotes): %.200s", samples[i].Code, made)
		}
	}
	return b, nil
}

func toJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

func (b *Body) make(fields *bodyFields) ([]byte, error) {
	var made bytes.Buffer
	if err := b.template.Execute(&made, fields); err != nil {
		return nil, err
	}
	if made.Len() > BodyMax {
		return nil, errors.New("it makes too much")
	}
	return made.Bytes(), nil
}

// write sends the problem as this body says, false if it cannot.
func (b *Body) write(w http.ResponseWriter, p *Problem) bool {
	made, err := b.make(&bodyFields{p.Status, p.Code, p.Title, p.Detail, p.Violated, p.RetryAfter})
	if err != nil {
		return false
	}
	send(w, p.Status, b.contentType, made)
	return true
}

func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
