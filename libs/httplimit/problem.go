package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// The codes of problem bodies, for programs to switch on. Details are for people
// and may change.
const (
	CodeRateLimited      = "rate_limited"      // 429: over a limit; Retry-After says when to come back
	CodeCostAboveLimit   = "cost_above_limit"  // 429: the request costs more than the limit can ever hold
	CodeBanned           = "banned"            // 429: an override refuses this caller
	CodeStoreTimeout     = "store_timeout"     // 503: a rule that fails closed, its counter did not answer in time
	CodeStoreUnavailable = "store_unavailable" // 503: a rule that fails closed, its counter could not be asked
)

// quotaExceeded is the problem type of draft-ietf-httpapi-ratelimit-headers.
const (
	quotaExceeded      = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	quotaExceededTitle = "Request cannot be satisfied as assigned quota has been exceeded"
)

// Problem is a body of type application/problem+json.
type Problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Code     string   `json:"code"`
	Detail   string   `json:"detail,omitempty"`
	Instance string   `json:"instance,omitempty"`          // which request it was about; Write fills it from X-Request-Id
	Violated []string `json:"violated-policies,omitempty"` // the rules that refused, as RateLimit-Policy names them

	RetryAfter int64 `json:"-"` // seconds, what the header field says; 0 if nothing
}

// NewProblem makes a problem that its status explains.
func NewProblem(status int, code, detail string) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// Refusal makes the problem of a decision that does not allow: 429 if it is
// denied, 503 if the counter of a rule that fails closed could not be reached.
func Refusal(d *limit.Decision) Problem {
	after, _ := RetryAfter(d)
	if d.Verdict == limit.Unavailable {
		p := unavailable(d)
		p.RetryAfter = after
		return p
	}
	p := Problem{Type: quotaExceeded, Title: quotaExceededTitle, Status: http.StatusTooManyRequests, Code: CodeRateLimited, RetryAfter: after}
	for i := range d.Outcomes {
		if o := outcomeAt(d, i); refuses(o) {
			p.Violated = append(p.Violated, o.Rule.Name())
		}
	}
	p.Code, p.Detail = explain(d)
	return p
}

// explain tells why a request was denied, the reason that no waiting cures first.
func explain(d *limit.Decision) (code, detail string) {
	if d.Refused < 0 {
		return CodeRateLimited, ""
	}
	o := decisive(d)
	switch {
	case o.Banned:
		return CodeBanned, fmt.Sprintf("An override of limit %q refuses this caller. Waiting does not help.", o.Rule.Name())
	case o.Never:
		return CodeCostAboveLimit, fmt.Sprintf("The request costs %d and limit %q (%v) never holds more than %d. Waiting does not help.",
			o.Cost, o.Rule.Name(), o.Limit, o.Limit.Size())
	}
	lack := "is used up"
	if o.Known && o.Remaining > 0 {
		lack = fmt.Sprintf("has %d left and the request costs %d", o.Remaining, o.Cost)
	}
	seconds, _ := RetryAfter(d)
	return CodeRateLimited, fmt.Sprintf("Limit %q (%v) %s. Retry after %d s.", o.Rule.Name(), o.Limit, lack, seconds)
}

func unavailable(d *limit.Decision) Problem {
	code := CodeStoreUnavailable
	if errors.Is(d.Cause, store.ErrTimeout) {
		code = CodeStoreTimeout
	}
	detail := "A limit that must not be exceeded could not be checked, so the request was refused."
	if d.Refused >= 0 {
		detail = fmt.Sprintf("Limit %q could not be checked and refuses what it cannot check.", d.Outcomes[d.Refused].Rule.Name())
	}
	return NewProblem(http.StatusServiceUnavailable, code, detail)
}

// Answer sends the problem as the whole response to r, in the form that r's
// caller can read: as a status of gRPC to a gRPC call, as an error of Connect to a call
// of that, a 429 as denied says (unless nil), anything else as problem+json. Header
// fields set before stay.
func (p *Problem) Answer(w http.ResponseWriter, r *http.Request, denied *Body) {
	if media := GRPCType(r); media != "" {
		p.WriteGRPC(w, media)
		return
	}
	if isConnect(r) {
		p.writeConnect(w, r)
		return
	}
	if denied != nil && p.Status == http.StatusTooManyRequests && denied.write(w, p) {
		return
	}
	p.Write(w)
}

// Write sends the problem as problem+json, as the whole response. Header fields
// set before stay; an X-Request-Id among them becomes the instance. An error of
// the connection is the server's to notice, not the caller's.
func (p *Problem) Write(w http.ResponseWriter) { p.WriteAs(w, p) }

// WriteAs is Write for a problem with members of its own: whole is a pointer to a
// struct that embeds p.
func (p *Problem) WriteAs(w http.ResponseWriter, whole any) {
	if id := w.Header().Get("X-Request-Id"); id != "" && p.Instance == "" {
		p.Instance = "urn:shiplane:request:" + url.PathEscape(id)
	}
	body, err := json.Marshal(whole)
	if err != nil { // strings and numbers always marshal
		http.Error(w, p.Title, p.Status)
		return
	}
	send(w, p.Status, "application/problem+json", append(body, '\n'))
}
