// Package rest is POST /v1/ratelimit:check: the check in plain JSON, with the
// names and units that people write by hand.
package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/libs/httplimit"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Path is where the check is.
const Path = "/v1/ratelimit:check"

// bodyMax bounds a request: 16 entries with keys of 4 KiB, each byte escaped.
const bodyMax = 512 << 10 // bytes

// Codes of problem bodies beside httplimit's.
const (
	CodeBadRequest   = "bad_request"
	CodeNotFound     = "not_found"
	CodeMethod       = "method_not_supported"
	CodeUnauthorized = "unauthorized"
	CodeNoRules      = "rules_unavailable" // 503: none were had yet
)

// request is the body of a check.
type request struct {
	Domain  string  `json:"domain"`
	Entries []entry `json:"entries"`
}

type entry struct {
	Rule string `json:"rule"`
	Key  string `json:"key"`
	Cost *int64 `json:"cost"`
}

// response is the answer. What is not known is left out.
type response struct {
	Verdict string    `json:"verdict"` // allow or deny
	Entries []outcome `json:"entries"`
	RetryMS *int64    `json:"retry_ms,omitempty"` // of a denied request that waiting helps
}

type outcome struct {
	Rule      string `json:"rule"`
	Remaining *int64 `json:"remaining,omitempty"`
	ResetMS   *int64 `json:"reset_ms,omitempty"`
}

// problem is the answer where a rule that fails closed could not be asked: the
// problem, and the whole of the answer beside it.
type problem struct {
	httplimit.Problem
	response
}

// New serves checks by a service. A denied request is an answer with status 200.
func New(service checkv1.CheckServiceHandler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, p := read(w, r)
		if p != nil {
			p.Write(w)
			return
		}
		answer, err := service.Check(r.Context(), q)
		if err != nil {
			Refuse(w, err)
			return
		}
		write(w, http.StatusOK, "application/json", show(answer))
	})
}

// read reads the body; the problem says what is wrong with it.
func read(w http.ResponseWriter, r *http.Request) (*checkv1.CheckRequest, *httplimit.Problem) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p := httplimit.NewProblem(http.StatusMethodNotAllowed, CodeMethod, "A check is made by POST.")
		return nil, &p
	}
	bad := func(status int, text string, args ...any) *httplimit.Problem {
		p := httplimit.NewProblem(status, CodeBadRequest, fmt.Sprintf(text, args...))
		return &p
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, bad(http.StatusUnsupportedMediaType, "Content-Type is %.100q: want application/json", r.Header.Get("Content-Type"))
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax))
	decoder.DisallowUnknownFields()
	var body request
	err := decoder.Decode(&body)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the request")
		}
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, bad(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", long.Limit)
	case err != nil:
		return nil, bad(http.StatusBadRequest, "the body is no check: %v", err)
	}
	q := &checkv1.CheckRequest{Domain: body.Domain}
	for _, e := range body.Entries {
		q.Entries = append(q.Entries, &checkv1.Entry{Rule: e.Rule, Key: e.Key, Cost: e.Cost})
	}
	return q, nil
}

// NotFound answers where there is nothing else.
func NotFound(w http.ResponseWriter, r *http.Request) {
	p := httplimit.NewProblem(http.StatusNotFound, CodeNotFound, fmt.Sprintf("There is nothing at %.100q; checks are made at %s.", r.URL.Path, Path))
	p.Write(w)
}

// Refuse answers with an error of Connect.
func Refuse(w http.ResponseWriter, err error) {
	status, code, detail := http.StatusInternalServerError, "internal", "The check failed; the log of the checker tells more."
	var failure *connect.Error
	if errors.As(err, &failure) {
		detail = failure.Message()
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument:
		status, code = http.StatusBadRequest, CodeBadRequest
	case connect.CodeUnauthenticated:
		status, code = http.StatusUnauthorized, CodeUnauthorized
		w.Header().Set("WWW-Authenticate", "Bearer")
	case connect.CodeNotFound:
		status, code = http.StatusNotFound, CodeNotFound
	case connect.CodeDeadlineExceeded:
		status, code = http.StatusGatewayTimeout, httplimit.CodeStoreTimeout
	case connect.CodeUnavailable:
		status, code = http.StatusServiceUnavailable, httplimit.CodeStoreUnavailable
	default:
		detail = "The check failed; the log of the checker tells more."
	}
	answer := decided(failure)
	if answer == nil && status == http.StatusServiceUnavailable {
		code = CodeNoRules
	}
	p := httplimit.NewProblem(status, code, detail)
	if answer != nil {
		write(w, status, "application/problem+json", problem{p, show(answer)})
		return
	}
	p.Write(w)
}

// decided returns the answer that an error carries, nil for none.
func decided(failure *connect.Error) *checkv1.CheckResponse {
	if failure == nil {
		return nil
	}
	for _, detail := range failure.Details() {
		if m, err := detail.Value(); err == nil {
			if answer, ok := m.(*checkv1.CheckResponse); ok {
				return answer
			}
		}
	}
	return nil
}

func show(a *checkv1.CheckResponse) response {
	r := response{Verdict: "deny", Entries: make([]outcome, 0, len(a.GetEntries())), RetryMS: millis(a.GetRetryAfter())}
	if a.GetVerdict() == checkv1.Verdict_VERDICT_ALLOWED {
		r.Verdict = "allow"
	}
	for _, o := range a.GetEntries() {
		r.Entries = append(r.Entries, outcome{Rule: o.GetRule(), Remaining: o.Remaining, ResetMS: millis(o.GetReset_())})
	}
	return r
}

// millis rounds up: who waits so long has waited enough.
func millis(d *durationpb.Duration) *int64 {
	if d == nil {
		return nil
	}
	n := int64((d.AsDuration() + time.Millisecond - 1) / time.Millisecond)
	return &n
}

func write(w http.ResponseWriter, status int, media string, body any) {
	text, err := json.Marshal(body)
	if err != nil { // texts and numbers always marshal
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // an error of the connection is the server's to notice
}
