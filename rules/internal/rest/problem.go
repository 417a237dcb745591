package rest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/httplimit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// The codes of problems, for programs to switch on. Those of the service are the
// contract's (Problem.code), the others this API's own. Details are for people and
// may change.
const (
	codeBadRequest      = "bad_request"           // 400: cannot be read
	codeNotFound        = "not_found"             // 404
	codeVersionConflict = "version_conflict"      // 409: the item has another version
	codeRollout         = "rollout_in_progress"   // 409: the rule has a rollout under way
	codeInvalidRule     = "invalid_rule"          // 422: can be read, and must not be in force
	codePrecondition    = "precondition_required" // 428: If-Match is missing
	codeUnavailable     = "unavailable"           // 503: the database cannot be reached

	codeMethodNotAllowed = "method_not_allowed"     // 405: Allow says what is
	codeBodyTooLarge     = "body_too_large"         // 413
	codeMediaType        = "unsupported_media_type" // 415: want application/json
	codeUnauthenticated  = "unauthenticated"        // 401: no token, or a void one
	codeForbidden        = "permission_denied"      // 403: the token's role may not
	codeTimeout          = "timeout"                // 504: the time for it was up
	codeInternal         = "internal"               // 500: a fault of ours; the log tells more
)

// statuses are what the codes of the service are by HTTP.
var statuses = map[string]int{
	codeBadRequest:      http.StatusBadRequest,
	codeNotFound:        http.StatusNotFound,
	codeVersionConflict: http.StatusConflict,
	codeRollout:         http.StatusConflict,
	codeInvalidRule:     http.StatusUnprocessableEntity,
	codePrecondition:    http.StatusPreconditionRequired,
	codeUnavailable:     http.StatusServiceUnavailable,
}

// bare are what errors without a Problem in their details are.
var bare = map[connect.Code]struct {
	status int
	code   string
}{
	connect.CodeInvalidArgument:  {http.StatusBadRequest, codeBadRequest},
	connect.CodeNotFound:         {http.StatusNotFound, codeNotFound},
	connect.CodeUnauthenticated:  {http.StatusUnauthorized, codeUnauthenticated},
	connect.CodePermissionDenied: {http.StatusForbidden, codeForbidden},
	connect.CodeUnavailable:      {http.StatusServiceUnavailable, codeUnavailable},
	connect.CodeDeadlineExceeded: {http.StatusGatewayTimeout, codeTimeout},
	connect.CodeCanceled:         {http.StatusGatewayTimeout, codeTimeout}, // nobody is there to read it
}

// outageRetry is the wait told with a 503, in seconds: a database that restarts
// is back within some.
const outageRetry = "2"

// violation is one thing that is wrong with a request.
type violation struct {
	Field   string `json:"field"`           // where, as in "rule.burst"
	Value   string `json:"value,omitempty"` // what stands there, shortened
	Problem string `json:"problem"`         // what is wrong with it, and what is allowed
}

// problem is a problem of this API, and the error of every step that leads to one.
type problem struct {
	httplimit.Problem
	Violations     []violation `json:"violations,omitempty"`
	CurrentVersion *int64      `json:"current_version,omitempty"` // with version_conflict: 0 if there is none
}

func (p *problem) Error() string { return p.Code + ": " + p.Detail }

func problemf(status int, code, detail string, args ...any) *problem {
	return &problem{Problem: httplimit.NewProblem(status, code, fmt.Sprintf(detail, args...))}
}

// invalid is a problem of things that are wrong with a request.
func invalid(status int, code string, wrong []violation) *problem {
	p := problemf(status, code, "%s", wrong[0].String())
	if more := len(wrong) - 1; more > 0 {
		p.Detail = fmt.Sprintf("%s (and %d more, see violations)", p.Detail, more)
	}
	p.Violations = wrong
	return p
}

func (v *violation) String() string {
	if v.Value == "" {
		return v.Field + ": " + v.Problem
	}
	return v.Field + " is " + v.Value + ": " + v.Problem
}

func conflict(current int64) *problem {
	p := problemf(http.StatusConflict, codeVersionConflict, "no version that If-Match names by a strong tag is the current one, %d; read it and apply your edit to it", current)
	p.CurrentVersion = &current
	return p
}

// merge joins what is wrong with a body's form and with what it means. Of a field
// whose form is wrong the rest is not told: it was not read.
func merge(form, meaning []violation) []violation {
	all := slices.Clone(form)
	for _, v := range meaning {
		if !slices.ContainsFunc(form, func(f violation) bool { return f.Field == v.Field }) {
			all = append(all, v)
		}
	}
	return all
}

func sorted(v []violation) []violation {
	slices.SortFunc(v, func(a, b violation) int { return cmp.Compare(a.Field, b.Field) })
	return v
}

// Refuse answers a request with what an error is to its caller: an error of
// connect, with or without a Problem in its details, or one of this package.
func Refuse(w http.ResponseWriter, _ *http.Request, err error) {
	p := problemOf(err)
	var failure *connect.Error
	if errors.As(err, &failure) {
		for _, name := range []string{"WWW-Authenticate", "Retry-After"} {
			if value := failure.Meta().Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
	}
	if p.Status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", outageRetry)
	}
	if p.CurrentVersion != nil && *p.CurrentVersion > 0 {
		w.Header().Set("ETag", etag(*p.CurrentVersion))
	}
	p.WriteAs(w, p)
}

// problemOf is what an error is to a caller.
func problemOf(err error) *problem {
	var ready *problem
	if errors.As(err, &ready) {
		return ready
	}
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return problemf(http.StatusInternalServerError, codeInternal, "an internal error; the log of the rules service tells more")
	}
	said := detailOf(failure)
	if status, ok := statuses[said.GetCode()]; ok {
		return byHTTP(problemf(status, said.GetCode(), "%s", failure.Message()), said)
	}
	if known, ok := bare[failure.Code()]; ok {
		return problemf(known.status, known.code, "%s", failure.Message())
	}
	return problemf(http.StatusInternalServerError, codeInternal, "%s", failure.Message())
}

// byHTTP says in the words of this API what a Problem says in those of the calls.
func byHTTP(p *problem, said *rulesv1.Problem) *problem {
	for _, v := range said.GetViolations() {
		field := strings.TrimPrefix(v.GetField(), "write.") // a parameter of the query
		p.Violations = append(p.Violations, violation{field, v.GetValue(), v.GetProblem()})
	}
	switch p.Code {
	case codeVersionConflict:
		p.CurrentVersion = &said.CurrentVersion
	case codePrecondition:
		p.Detail = `If-Match is missing: want the version that was read, as in If-Match: "7", or If-None-Match: * for what must not exist`
	}
	return p
}

// detailOf returns the Problem of an error, nil for none.
func detailOf(failure *connect.Error) *rulesv1.Problem {
	for _, detail := range failure.Details() {
		if value, err := detail.Value(); err == nil {
			if p, ok := value.(*rulesv1.Problem); ok {
				return p
			}
		}
	}
	return nil
}

// valueShown bounds how much of a value a violation repeats, in bytes.
const valueShown = 60

func shown(value string) string {
	if len(value) > valueShown {
		return fmt.Sprintf("%.*q…", valueShown, value)
	}
	return fmt.Sprintf("%q", value)
}
