// Package edge takes a request in: it asks who sent it, which rules it meets and
// whether they let it pass, and then either sends it on or says why not.
//
// In the order of ServeHTTP:
//
//  1. The path is brought into its one spelling, which both the route class and
//     the upstream see: no spelling passes uncounted.
//  2. Identity. Who sends a credential that does not hold will be refused (401) in
//     every mode: modes are about limits, not about who may enter.
//  3. The route class. Without rules (a rules service that was not heard yet) nothing
//     is known to be allowed: 503. Only where it counts by user is the body read, up to
//     BodyMax and bodyTime, and given back; every other body streams.
//  4. The limiter decides, before anything is sent to the upstream. Requests that
//     will be refused by step 2 or 3 are limited too, as anonymous ones or by the
//     identities that they have: keys cannot be tried without limit.
//  5. A refusal is answered here; else the upstream answers, and its response
//     carries the header fields of the decision.
//
// In shadow mode everything is evaluated and counted as if it were enforced, and
// nothing is refused for a limit, nor for want of rules, nor shown of one; a login whose user cannot be
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

	"golang.org/x/sync/semaphore"

	"github.com/shiplane/limits/gateway/internal/access"
	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/gateway/internal/proxy"
	"github.com/shiplane/limits/gateway/internal/respond"
	"github.com/shiplane/limits/gateway/internal/userfield"
	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limitmeter"
	"github.com/shiplane/limits/libs/ruleset"
)

const (
	// bodyTime is how long a body that has to be read may take to come.
	bodyTime = 10 * time.Second
	// bodiesMax is how many bytes of such bodies are held at once, of all requests
	// in flight: they are read before any limit is asked.
	bodiesMax = 64 << 20
)

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

// Config is what a Handler is made of. All fields but Legacy, Charge and Decided are
// required.
type Config struct {
	Rules    interface{ Current() *ruleset.Ruleset } // nil: there are none yet
	Now      func() time.Time                        // by which overrides start and end
	Decided  func(*limit.Decision)                   // is told each decision, and keeps none; nil: nobody is
	Limiter  Checker
	Identity *identity.Identifier
	Upstream http.Handler // proxy.New
	Answers  *respond.Writer
	Meter    *meter.Meter
	Logger   *slog.Logger
	Mode     Mode
	Charge   Charge
	Legacy   bool  // also send X-RateLimit-*
	BodyMax  int64 // bytes of a body that has to be read
}

// Handler limits requests. Safe for concurrent use.
type Handler struct {
	Config
	checks sync.Pool           // of *check
	bodies *semaphore.Weighted // bytes, of bodiesMax
	plans  planLog
}

// New makes a handler.
func New(cfg Config) *Handler {
	return &Handler{Config: cfg, checks: sync.Pool{New: func() any { return new(check) }}, bodies: semaphore.NewWeighted(bodiesMax)}
}

// check is the memory of one decision.
type check struct {
	request  limit.Request
	decision limit.Decision
}

// ServeHTTP limits one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		h.refuse(w, r, &refusal{limitmeter.VerdictBadRequest, limitmeter.ByRequest,
			httplimit.NewProblem(http.StatusMethodNotAllowed, CodeMethod, "This gateway is no tunnel.")}, nil)
		return
	}
	r.URL.Path, r.URL.RawPath = ruleset.CleanPath(r.URL)
	account, err := h.Identity.Account(r)
	if errors.Is(err, identity.ErrKeyRequired) && isPreflight(r) {
		err = nil // browsers send no credentials with it
	}
	h.Identity.Clean(r)
	refused := unidentified(err)
	if h.Mode == Off {
		h.pass(w, r, refused)
		return
	}
	rules := h.Rules.Current()
	if rules == nil {
		if h.Mode != Shadow {
			refused = noRules() // whoever sent it: keys must not be tried without limit
		}
		h.pass(w, r, refused)
		return
	}
	route := rules.Route(r)
	caller, err := h.caller(rules, account, r)
	if err == nil && refused == nil && route.UserField != "" && !h.Charge.Free(r, route) {
		held := h.bodySize(r)
		if !h.bodies.TryAcquire(held) {
			h.refuse(w, r, busy(), nil)
			return
		}
		defer h.bodies.Release(held)
		refused, err = h.addUser(w, r, rules, route, &caller)
	}
	if err != nil {
		h.Logger.Error("no subject can be made of a caller", "error", err)
		h.refuse(w, r, &refusal{limitmeter.VerdictError, limitmeter.ByRequest, httplimit.NewProblem(http.StatusInternalServerError, CodeInternal, "")}, nil)
		return
	}
	h.limit(w, r, rules, route, &caller, refused)
}

// pass is what becomes of a request that the limiter is not asked about.
func (h *Handler) pass(w http.ResponseWriter, r *http.Request, refused *refusal) {
	if refused != nil {
		h.refuse(w, r, refused, nil)
		return
	}
	h.Meter.Verdict(r.Context(), limit.Allowed.String(), limitmeter.ByOff)
	access.Answered(r.Context(), limit.Allowed.String(), limitmeter.ByOff)
	h.Upstream.ServeHTTP(w, r)
}

// limit asks the limiter and answers, or has the upstream answer. refused is why
// the request is refused if the limits let it pass, nil if it is not.
func (h *Handler) limit(w http.ResponseWriter, r *http.Request, rules *ruleset.Ruleset, route *ruleset.Route, caller *ruleset.Caller, refused *refusal) {
	c := h.checks.Get().(*check)
	rules.Match(h.Now(), route, caller, &c.request)
	if refused != nil {
		PriceRefused(route.Cost, c.request.Charges)
	} else {
		h.Charge.Price(r, route, c.request.Charges)
	}
	h.Limiter.Check(r.Context(), &c.request, &c.decision)
	if h.Decided != nil {
		h.Decided(&c.decision)
	}
	access.Decided(r.Context(), &c.decision, route, caller, h.Mode == Shadow)
	allowed := c.decision.Verdict == limit.Allowed
	if refused != nil && (allowed || h.Mode == Shadow) {
		h.Meter.Rules(r.Context(), &c.decision, h.Mode == Shadow)
	} else {
		h.Meter.Decision(r.Context(), &c.decision, h.Mode == Shadow)
	}
	if h.Mode == Shadow {
		h.checks.Put(c)
		if refused != nil {
			h.refuse(w, r, refused, nil)
			return
		}
		h.Upstream.ServeHTTP(w, r)
		return
	}
	fields := httplimit.Describe(&c.decision, h.Legacy)
	if !allowed {
		problem := httplimit.Refusal(&c.decision)
		h.checks.Put(c)
		h.Answers.Write(w, r, &problem, &fields)
		return
	}
	h.checks.Put(c) // before the upstream answers: a stream may take hours
	if refused != nil {
		h.refuse(w, r, refused, &fields)
		return
	}
	h.Upstream.ServeHTTP(w, proxy.WithFields(r, &fields))
}

// caller tells whom a request is counted by. Without an account it is anonymous.
// An account whose plan the rules do not know is limited as well as anonymous ones
// are, by its address, beside the rules for every plan: it must not become free
// of limits.
func (h *Handler) caller(rules *ruleset.Ruleset, account identity.Account, r *http.Request) (caller ruleset.Caller, err error) {
	caller.Plan = ruleset.PlanAnonymous
	if account.ID != "" {
		if slices.Contains(rules.Plans(), account.Plan) {
			caller.Plan = account.Plan
		} else {
			h.plans.unknown(h.Logger, account.Plan)
		}
		if caller.Account, err = limit.NewSubject(rules.Domain(), limit.Account, account.ID); err != nil {
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

// bodySize is how much memory reading a request's body may take: a body of
// unknown length is read into a buffer that grows to twice its length.
func (h *Handler) bodySize(r *http.Request) int64 {
	if r.ContentLength < 0 {
		return min(2*h.BodyMax, bodiesMax)
	}
	return min(r.ContentLength, h.BodyMax)
}

// addUser reads the user name out of the body. It is refused if it cannot be told,
// but in shadow mode.
func (h *Handler) addUser(w http.ResponseWriter, r *http.Request, rules *ruleset.Ruleset, route *ruleset.Route, caller *ruleset.Caller) (*refusal, error) {
	control := http.NewResponseController(w)
	// A connection without deadlines (in tests) is read without one.
	_ = control.SetReadDeadline(time.Now().Add(bodyTime))
	name, err := userfield.Take(r, route.UserField, h.BodyMax)
	_ = control.SetReadDeadline(time.Time{})
	id := rules.Naming().UserID(name)
	if err == nil && id == "" {
		err = &userfield.Refusal{Code: userfield.CodeUserMissing, Detail: "The body names no user."}
	}
	if err != nil {
		if h.Mode == Shadow {
			return nil, nil
		}
		return unreadable(err), nil
	}
	caller.User, err = limit.NewSubject(rules.Domain(), limit.User, id)
	return nil, err
}

// refuse answers for another reason than a limit; fields are of the limits that
// let the request pass, nil if none was asked.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, why *refusal, fields *httplimit.Fields) {
	h.Meter.Verdict(r.Context(), why.verdict, why.by)
	access.Answered(r.Context(), why.verdict, why.by)
	h.Answers.Write(w, r, &why.problem, fields)
}
