// Package edge takes a request in: it asks who sent it, which rules it meets and
// whether they let it pass, and then either sends it on or says why not.
//
// In the order of ServeHTTP:
//
//  1. The path is brought into its one spelling, which both the route class and
//     the upstream see: no spelling passes uncounted.
//  2. Identity. A key that is not known is refused (401) in every mode: modes
//     are about limits, not about who may enter.
//  3. The route class. Only where it counts by user is the body read, up to
//     BodyMax and bodyTime, and given back; every other body streams.
//  4. The limiter decides, before anything is sent to the upstream.
//  5. A refusal is answered here; else the upstream answers, and its response
//     carries the header fields of the decision.
//
// In shadow mode everything is evaluated and counted as if it were enforced, and
// nothing is refused for a limit nor shown of one; a login whose user cannot be
// told is then counted by its other identities. With the limiter off, steps 3 and
// 4 are left out.
package edge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/keys"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/gateway/internal/proxy"
	"github.com/shiplane/limits/gateway/internal/userfield"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
)

// The codes of refusals that no limit makes; userfield and httplimit have more.
const (
	CodeUnknownKey  = "unknown_key"             // 401
	CodeKeyRequired = "key_required"            // 401
	CodeMethod      = "method_not_supported"    // 405
	CodeInternal    = "internal"                // 500
	wwwAuthenticate = `Bearer realm="shiplane"` // a 401 has to say how to do better
)

// bodyTime is how long a body that has to be read may take to come.
const bodyTime = 10 * time.Second

// Mode is what is done with what the limiter says.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // counted, never enforced
	Off     Mode = "off"    // not asked
)

// Checker is the limiter, as libs/limiter describes Check.
type Checker interface {
	Check(ctx context.Context, request *limit.Request, decision *limit.Decision)
}

// Config is what a Handler is made of. All fields but Legacy are required.
type Config struct {
	Rules    interface{ Current() *ruleset.Ruleset }
	Limiter  Checker
	Identity *identity.Identifier
	Upstream http.Handler // proxy.New
	Meter    *meter.Meter
	Logger   *slog.Logger
	Mode     Mode
	Legacy   bool  // also send X-RateLimit-*
	BodyMax  int64 // bytes of a body that has to be read
}

// Handler limits requests. Safe for concurrent use.
type Handler struct {
	Config
	checks  sync.Pool // of *check
	unknown sync.Map  // plan → struct{}: plans of keys that the rules did not know, each logged once
}

// New makes a handler.
func New(cfg Config) *Handler {
	return &Handler{Config: cfg, checks: sync.Pool{New: func() any { return new(check) }}}
}

// check is the memory of one decision.
type check struct {
	request  limit.Request
	decision limit.Decision
}

// ServeHTTP limits one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		h.refuse(w, r, meter.VerdictBadRequest, httplimit.NewProblem(http.StatusMethodNotAllowed, CodeMethod, "This gateway is no tunnel."))
		return
	}
	r.URL.Path, r.URL.RawPath = ruleset.CleanPath(r.URL)
	key, err := h.Identity.Key(r.Header)
	if err != nil {
		h.unauthorized(w, r, err)
		return
	}
	if h.Mode == Off {
		h.Meter.Verdict(r.Context(), limit.Allowed.String(), meter.ByOff)
		h.Upstream.ServeHTTP(w, r)
		return
	}
	rules := h.Rules.Current()
	route := rules.Route(r)
	caller, err := h.caller(rules, key, r)
	if err == nil && route.UserField != "" {
		err = h.addUser(w, r, rules, route, &caller)
	}
	if refusal := (*userfield.Refusal)(nil); errors.As(err, &refusal) {
		if h.Mode == Enforce {
			h.refuse(w, r, meter.VerdictBadRequest, httplimit.NewProblem(http.StatusBadRequest, refusal.Code, refusal.Detail))
			return
		}
	} else if err != nil {
		h.Logger.Error("no subject can be made of a caller", "error", err)
		h.refuse(w, r, meter.VerdictError, httplimit.NewProblem(http.StatusInternalServerError, CodeInternal, ""))
		return
	}
	h.limit(w, r, rules, route, &caller)
}

// limit asks the limiter and answers, or has the upstream answer.
func (h *Handler) limit(w http.ResponseWriter, r *http.Request, rules *ruleset.Ruleset, route *ruleset.Route, caller *ruleset.Caller) {
	c := h.checks.Get().(*check)
	rules.Match(time.Now(), route, caller, &c.request)
	h.Limiter.Check(r.Context(), &c.request, &c.decision)
	h.Meter.Decision(r.Context(), &c.decision, h.Mode == Shadow)
	if h.Mode == Shadow {
		h.checks.Put(c)
		h.Upstream.ServeHTTP(w, r)
		return
	}
	fields := httplimit.Describe(&c.decision, h.Legacy)
	if c.decision.Verdict == limit.Allowed {
		h.checks.Put(c) // before the upstream answers: a stream may take hours
		h.Upstream.ServeHTTP(w, proxy.WithFields(r, &fields))
		return
	}
	problem := httplimit.Refusal(&c.decision)
	h.checks.Put(c)
	fields.Set(w.Header())
	problem.Write(w)
}

// caller tells whom a request is counted by. Without a key it is anonymous. An
// account whose plan the rules have dropped is limited as well as anonymous ones
// are, by its address, beside the rules for every plan: it must not become free
// of limits.
func (h *Handler) caller(rules *ruleset.Ruleset, key *keys.Key, r *http.Request) (caller ruleset.Caller, err error) {
	caller.Plan = ruleset.PlanAnonymous
	if key != nil {
		if slices.Contains(rules.Plans(), key.Plan) {
			caller.Plan = key.Plan
		} else if _, logged := h.unknown.LoadOrStore(key.Plan, struct{}{}); !logged {
			h.Logger.Warn("the rules know no such plan: its accounts are limited as anonymous ones are", "plan", key.Plan)
		}
		if caller.Account, err = limit.NewSubject(rules.Domain(), limit.Account, key.Account); err != nil {
			return caller, err
		}
	}
	id := rules.Naming().AddressID(h.Identity.Address(r.RemoteAddr, r.Header))
	if id == "" {
		return caller, fmt.Errorf("remote address %q is none", r.RemoteAddr)
	}
	caller.IP, err = limit.NewSubject(rules.Domain(), limit.IP, id)
	return caller, err
}

// addUser reads the user name out of the body. The error is a *userfield.Refusal
// if it cannot be told.
func (h *Handler) addUser(w http.ResponseWriter, r *http.Request, rules *ruleset.Ruleset, route *ruleset.Route, caller *ruleset.Caller) error {
	control := http.NewResponseController(w)
	// A connection without deadlines (in tests) is read without one.
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	name, err := userfield.Take(r, route.UserField, h.BodyMax)
	_ = control.SetReadDeadline(time.Time{})
	if err != nil {
		return err
	}
	id := rules.Naming().UserID(name)
	if id == "" {
		return &userfield.Refusal{Code: userfield.CodeUserMissing, Detail: "The body names no user."}
	}
	caller.User, err = limit.NewSubject(rules.Domain(), limit.User, id)
	return err
}

func (h *Handler) unauthorized(w http.ResponseWriter, r *http.Request, err error) {
	code, detail := CodeUnknownKey, "The API key is unknown."
	if errors.Is(err, identity.ErrKeyRequired) {
		code, detail = CodeKeyRequired, "An API key is required: send it as X-Api-Key, or as Authorization: Bearer."
	}
	w.Header().Set("WWW-Authenticate", wwwAuthenticate)
	h.refuse(w, r, meter.VerdictUnauthorized, httplimit.NewProblem(http.StatusUnauthorized, code, detail))
}

// refuse answers without the limiter.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, verdict string, p httplimit.Problem) {
	by := meter.ByRequest
	if verdict == meter.VerdictUnauthorized {
		by = meter.ByIdentity
	}
	h.Meter.Verdict(r.Context(), verdict, by)
	p.Write(w)
}
