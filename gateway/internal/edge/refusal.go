package edge

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/gateway/internal/respond"
	"github.com/shiplane/limits/gateway/internal/userfield"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limitmeter"
)

// The codes of refusals that no limit makes; respond, userfield and httplimit have more.
const (
	CodeUnknownKey  = "unknown_key"            // 401
	CodeKeyRequired = "key_required"           // 401
	CodeBadAccount  = "account_unreadable"     // 401
	CodeNoTokenKeys = "token_keys_unavailable" // 503
	CodeMethod      = "method_not_supported"   // 405
	CodeBusy        = "busy"                   // 503: too many bodies are being read
	CodeNoRules     = "rules_unavailable"      // 503: none were had yet
	CodeInternal    = "internal"               // 500
)

// keysRetry is the wait told in seconds where the keys of tokens are missing: as
// long as between two attempts to have them.
const keysRetry = 10

// refusal is why a request is refused, whatever its limits say.
type refusal struct {
	verdict, by string // of meter
	problem     httplimit.Problem
}

// unidentified makes the refusal of an error of identity, nil for none.
func unidentified(err error) *refusal {
	if err == nil {
		return nil
	}
	why := &refusal{verdict: limitmeter.VerdictUnauthorized, by: limitmeter.ByIdentity}
	unauthorized := func(code, detail string) {
		why.problem = httplimit.NewProblem(http.StatusUnauthorized, code, detail)
	}
	switch {
	case errors.Is(err, jwks.ErrNoKeys):
		why.problem = httplimit.NewProblem(http.StatusServiceUnavailable, CodeNoTokenKeys, "The keys that tokens are verified by cannot be had at the moment.")
		why.problem.RetryAfter = keysRetry
	case errors.Is(err, jwks.ErrInvalid):
		unauthorized(respond.CodeInvalidToken, sentence(err))
	case errors.Is(err, identity.ErrBadAccount):
		unauthorized(CodeBadAccount, "The header that names the account cannot be read, or is there twice.")
	case errors.Is(err, identity.ErrKeyRequired):
		unauthorized(CodeKeyRequired, "An account is required: send an API key as X-Api-Key, or a key or token as Authorization: Bearer.")
	case errors.Is(err, identity.ErrTwoBearers):
		unauthorized(CodeUnknownKey, "The field Authorization is there more than once.")
	default:
		unauthorized(CodeUnknownKey, "The API key is unknown.")
	}
	return why
}

func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// unreadable makes the refusal of a login whose user cannot be told.
func unreadable(err error) *refusal {
	status, code, detail := http.StatusBadRequest, userfield.CodeBodyUnreadable, err.Error()
	if why := (*userfield.Refusal)(nil); errors.As(err, &why) {
		code = why.Code
	}
	if code == userfield.CodeBodyTimeout {
		status = http.StatusRequestTimeout
	}
	return &refusal{limitmeter.VerdictBadRequest, limitmeter.ByRequest, httplimit.NewProblem(status, code, detail)}
}

// busy refuses a request whose body there is no memory for.
func busy() *refusal {
	p := httplimit.NewProblem(http.StatusServiceUnavailable, CodeBusy, "Too many logins are being read at once.")
	p.RetryAfter = 1
	return &refusal{limitmeter.VerdictError, limitmeter.ByRequest, p}
}

// noRules refuses a request while there are no rules to decide it by.
func noRules() *refusal {
	p := httplimit.NewProblem(http.StatusServiceUnavailable, CodeNoRules, "The rules that requests are decided by cannot be had at the moment.")
	p.RetryAfter = 1
	return &refusal{limitmeter.VerdictError, limitmeter.ByRequest, p}
}

// plansLogged bounds the names that a planLog remembers: they may come from
// tokens.
const plansLogged = 100

// planLog logs plans of accounts that the rules do not know, each once.
type planLog struct {
	seen  sync.Map // plan → struct{}
	count atomic.Int64
}

func (l *planLog) unknown(log *slog.Logger, plan string) {
	if _, logged := l.seen.Load(plan); logged || l.count.Load() >= plansLogged {
		return
	}
	if _, logged := l.seen.LoadOrStore(plan, struct{}{}); !logged {
		l.count.Add(1)
		log.Warn("the rules know no such plan: its accounts are limited as anonymous ones are", "plan", plan)
	}
}
