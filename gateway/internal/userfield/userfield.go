// Package userfield finds the user name in the body of a login, so that attempts
// on one name can be counted together, whoever makes them.
//
// It has to find the name that the API behind will find, whatever the caller
// sends, or the count could be led astray. So it accepts only what everybody
// reads alike: JSON (one object, the member once, a text) or a form (the field
// once), in UTF-8, not compressed, and refuses everything else: a member that
// stands twice or in a spelling that some servers take for it, a field in the query
// beside the body's, a form that declares another charset in itself, a name with
// control characters or with what is no character, something after the end, a form
// that looks like JSON or XML.
package userfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The codes of refusals; each is answered 400, but CodeBodyTimeout 408.
const (
	CodeBodyTimeout    = "body_timeout" // it stopped coming
	CodeBodyTooLarge   = "body_too_large"
	CodeBodyUnreadable = "body_unreadable" // neither of the forms above
	CodeUserMissing    = "user_missing"
	CodeUserAmbiguous  = "user_ambiguous" // the name stands more than once
)

// Refusal is why no user name could be had, in words for the caller.
type Refusal struct{ Code, Detail string }

func (r *Refusal) Error() string { return r.Detail }

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Take returns the user name that the body of r holds in field, exactly so
// spelled. It reads the body to its end, or to maxBytes; afterwards r.Body is the
// same body from its beginning, byte for byte, also after an error, which is
// always a *Refusal.
func Take(r *http.Request, field string, maxBytes int64) (string, error) {
	body, refusal := buffer(r, maxBytes)
	if refusal != nil {
		return "", refusal
	}
	name, refusal := find(r, body, field)
	if refusal != nil {
		return "", refusal
	}
	return name, nil
}

// Absent reports whether a request names no user, because it has no body and its
// query holds nothing that a server could take for the field.
func Absent(r *http.Request, field string) bool {
	return r.ContentLength == 0 && notInQuery(r.URL.RawQuery, field) == nil
}

// buffer reads the body and puts it back.
func buffer(r *http.Request, maxBytes int64) ([]byte, *Refusal) {
	tooLarge := refuse(CodeBodyTooLarge, "The body is too large: at most %d bytes are allowed here.", maxBytes)
	if r.ContentLength > maxBytes {
		return nil, tooLarge
	}
	if r.Body == nil {
		return nil, nil
	}
	original := r.Body
	var sized bytes.Buffer
	if r.ContentLength > 0 {
		sized.Grow(int(r.ContentLength) + bytes.MinRead) // so that it is not grown by doubling
	}
	_, err := sized.ReadFrom(io.LimitReader(original, maxBytes+1))
	body := sized.Bytes()
	if err != nil || int64(len(body)) > maxBytes {
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), original), original}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, refuse(CodeBodyTimeout, "The body of the request stopped coming.")
		}
		if err != nil {
			return nil, refuse(CodeBodyUnreadable, "The body could not be read to its end.")
		}
		return nil, tooLarge
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(body), original}
	if r.ContentLength < 0 {
		r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	}
	return body, nil
}

func find(r *http.Request, body []byte, field string) (string, *Refusal) {
	for _, encoding := range r.Header["Content-Encoding"] {
		if !strings.EqualFold(encoding, "identity") {
			return "", refuse(CodeBodyUnreadable, "The body is compressed (Content-Encoding %.20q), which is not allowed here.", encoding)
		}
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 {
		return "", refuse(CodeBodyUnreadable, "The request has %d Content-Type fields: want one.", len(types))
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	if err != nil {
		return "", refuse(CodeBodyUnreadable, "Content-Type %.60q cannot be read.", types[0])
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return "", refuse(CodeBodyUnreadable, "The body has charset %.20q: want utf-8.", charset)
	}
	if !utf8.Valid(body) {
		return "", refuse(CodeBodyUnreadable, "The body is not valid UTF-8.")
	}
	var name string
	var refusal *Refusal
	switch {
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		name, refusal = fromJSON(body, field)
	case media == "application/x-www-form-urlencoded":
		name, refusal = fromForm(body, field)
	default:
		return "", refuse(CodeBodyUnreadable, "The body is %.60s: want application/json or application/x-www-form-urlencoded.", media)
	}
	if refusal == nil {
		refusal = notInQuery(r.URL.RawQuery, field)
	}
	if refusal == nil {
		refusal = checkName(name, field)
	}
	if refusal != nil {
		return "", refusal
	}
	return name, nil
}

// checkName refuses a name that servers read in different ways: some end it at a
// NUL or drop control characters and spaces without width, and half a surrogate pair in JSON becomes one
// thing here and another there.
func checkName(name, field string) *Refusal {
	name = strings.TrimFunc(name, blank) // white space around a name is no part of it
	if name == "" {
		return refuse(CodeUserMissing, "The body names no user: want a text in %q.", field)
	}
	for _, c := range name {
		if unicode.IsControl(c) || c == utf8.RuneError || c == '\ufeff' || c == '\u200b' {
			return refuse(CodeUserAmbiguous, "The user in %q holds a control character, a space without width, or what is no character.", field)
		}
	}
	return nil
}

// blank reports what some server takes for white space: U+FEFF is to JavaScript.
func blank(c rune) bool { return unicode.IsSpace(c) || c == '\ufeff' }

// notInQuery refuses a query that names the user, too: some servers merge both, and
// some of them prefer the query's.
func notInQuery(query, field string) *Refusal {
	values, err := url.ParseQuery(query)
	if err != nil {
		return refuse(CodeBodyUnreadable, "The query cannot be read.")
	}
	for member := range values {
		if taken(member, field) {
			return refuse(CodeUserAmbiguous, "The query names the user: want it in the body alone.")
		}
	}
	return nil
}

// taken reports whether some server takes a form's member for the field: in
// another case, with an index in brackets, ended by a NUL, or with the dots and
// spaces that PHP turns into underscores.
func taken(member, field string) bool {
	plain := strings.NewReplacer(".", "_", " ", "_", "[", "_")
	same := func(member string) bool {
		return strings.EqualFold(plain.Replace(strings.TrimFunc(member, blank)), plain.Replace(field))
	}
	end := strings.IndexAny(member, "[\x00")
	return same(member) || end > 0 && same(member[:end])
}

func fromJSON(body []byte, field string) (name string, refusal *Refusal) {
	unreadable := func(err error) *Refusal {
		return refuse(CodeBodyUnreadable, "The body is not one JSON object: %v.", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return "", unreadable(errors.New("it does not begin with one"))
	}
	seen := false
	for decoder.More() {
		member, err := decoder.Token()
		if err != nil {
			return "", unreadable(err)
		}
		// A decoder that ignores case takes USERNAME for username.
		ours, _ := member.(string)
		if !strings.EqualFold(ours, field) {
			var skipped json.RawMessage
			if err := decoder.Decode(&skipped); err != nil {
				return "", unreadable(err)
			}
			continue
		}
		if seen || ours != field {
			return "", refuse(CodeUserAmbiguous, "The body names the user more than once, or not as %q.", field)
		}
		seen = true
		value, err := decoder.Token()
		if err != nil {
			return "", unreadable(err)
		}
		text, ok := value.(string)
		if !ok {
			return "", refuse(CodeUserMissing, "%q in the body is no text.", field)
		}
		name = text
	}
	if _, err := decoder.Token(); err != nil {
		return "", unreadable(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", unreadable(errors.New("something follows it"))
	}
	return name, nil
}

func fromForm(body []byte, field string) (name string, refusal *Refusal) {
	// A server that goes by what a body looks like takes `{"a":"&b=c&"}` for JSON.
	if start := bytes.TrimLeftFunc(body, blank); len(start) > 0 && strings.IndexByte("{[\"<", start[0]) >= 0 {
		return "", refuse(CodeBodyUnreadable, "The form in the body looks like JSON or XML.")
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return "", refuse(CodeBodyUnreadable, "The form in the body cannot be read.")
	}
	seen := 0
	for member, texts := range values {
		// By HTML a form may say in itself what its texts are.
		if strings.EqualFold(member, "_charset_") && !slices.Equal(texts, []string{"utf-8"}) && !slices.Equal(texts, []string{"UTF-8"}) {
			return "", refuse(CodeBodyUnreadable, "The form declares a charset: want utf-8, or none.")
		}
		for _, text := range texts {
			if !utf8.ValidString(text) {
				return "", refuse(CodeBodyUnreadable, "The form in the body is not UTF-8.")
			}
		}
		if taken(member, field) {
			seen += len(texts)
		}
	}
	texts := values[field]
	if seen > 1 || seen == 1 && len(texts) == 0 {
		return "", refuse(CodeUserAmbiguous, "The body names the user more than once, or not as %q.", field)
	}
	if seen == 0 {
		return "", nil
	}
	return texts[0], nil
}
