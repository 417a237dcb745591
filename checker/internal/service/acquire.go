package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Acquire implements CheckService. All asks are read before the first one is
// sent: one that is malformed charges nobody.
func (s *Service) Acquire(ctx context.Context, q *checkv1.AcquireRequest) (*checkv1.AcquireResponse, error) {
	if err := s.podOnly(ctx); err != nil {
		return nil, err
	}
	n := len(q.GetAsks())
	if n < 1 || n > BatchMax {
		return nil, badBatch("asks", n)
	}
	asks := make([]store.Ask, n)
	for i, wire := range q.GetAsks() {
		if err := readAsk(wire, &asks[i]); err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("asks[%d]: %w", i, err))
		}
	}
	results := make([]*checkv1.AskResult, n)
	if n == 1 { // what most calls of a quiet pod are
		results[0] = s.take(ctx, &asks[0])
		return &checkv1.AcquireResponse{Results: results}, nil
	}
	var group errgroup.Group
	for i := range asks {
		group.Go(func() error {
			results[i] = s.take(ctx, &asks[i])
			return nil
		})
	}
	return &checkv1.AcquireResponse{Results: results}, group.Wait()
}

// take asks the store. A caller that leaves ends no ask: it may have been made.
func (s *Service) take(ctx context.Context, ask *store.Ask) (r *checkv1.AskResult) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked("acquire", p)
			r = &checkv1.AskResult{Cause: checkv1.Cause_CAUSE_STORE_TIMEOUT} // the charge may have been made
		}
	}()
	var result store.Result
	if err := s.store.Take(context.WithoutCancel(ctx), ask, &result); err != nil {
		if errors.Is(err, store.ErrInvalid) {
			s.log.Error("the store refused an ask that had been checked", "error", err)
		}
		return &checkv1.AskResult{Cause: cause(err)}
	}
	r = &checkv1.AskResult{AtUs: result.At.Microseconds(), Allowed: result.Allowed, Outcomes: make([]*checkv1.AskOutcome, len(result.Outcomes))}
	for i := range result.Outcomes {
		o := &result.Outcomes[i]
		r.Outcomes[i] = &checkv1.AskOutcome{
			Granted: o.Granted, Remaining: o.Remaining, RetryUs: o.Retry.Microseconds(), ResetUs: o.Reset.Microseconds(), Never: o.Never, Short: o.Short,
		}
	}
	return r
}

// ruleMax bounds the id of a rule with a candidate's version behind it, in bytes.
const ruleMax = 96

var (
	kinds = map[checkv1.SubjectKind]limit.Kind{
		checkv1.SubjectKind_SUBJECT_KIND_IP: limit.IP, checkv1.SubjectKind_SUBJECT_KIND_USER: limit.User, checkv1.SubjectKind_SUBJECT_KIND_ACCOUNT: limit.Account,
	}
	algorithms = map[checkv1.Counter]limit.Algorithm{
		checkv1.Counter_COUNTER_TOKEN_BUCKET: limit.TokenBucket, checkv1.Counter_COUNTER_FIXED_WINDOW: limit.FixedWindow, checkv1.Counter_COUNTER_SLIDING_LOG: limit.SlidingLog,
	}
)

// readAsk makes an ask of what came over the wire; the error names the field.
func readAsk(wire *checkv1.Ask, ask *store.Ask) error {
	var err error
	if ask.Subject, err = limit.RestoreSubject(wire.GetDomain(), kinds[wire.GetKind()], string(wire.GetId()), wire.GetHashed()); err != nil {
		return err
	}
	ask.Entries = make([]store.Entry, len(wire.GetEntries()))
	for i, e := range wire.GetEntries() {
		if err := readEntry(wire.GetDomain(), e, &ask.Entries[i]); err != nil {
			return fmt.Errorf("entries[%d]: %w", i, err)
		}
	}
	return ask.Validate()
}

func readEntry(domain string, wire *checkv1.AskEntry, e *store.Entry) error {
	name, _, _ := strings.Cut(wire.GetRule(), "@") // a candidate's version follows
	if err := limit.ValidateName("rule", name); err != nil || len(wire.GetRule()) > ruleMax {
		return fmt.Errorf("rule is %.100q: want an id of a rule", wire.GetRule())
	}
	rule := &limit.Rule{Domain: domain, ID: wire.GetRule(), Tag: wire.GetTag(), Algorithm: algorithms[wire.GetCounter()], Mode: limit.Enforce, Counts: limit.CountRequests}
	if wire.GetShadow() {
		rule.Mode = limit.Shadow
	}
	switch rule.Algorithm {
	case limit.TokenBucket:
		rule.Limit = limit.Limit{Rate: limit.Rate(wire.GetRate()), Burst: wire.GetSize()}
	case limit.FixedWindow, limit.SlidingLog:
		rule.Limit = limit.Limit{Count: wire.GetSize(), Window: micros(wire.GetWindowUs())}
	default:
		return fmt.Errorf("counter is %d: want a token bucket, fixed window or sliding log", wire.GetCounter())
	}
	*e = store.Entry{
		Rule: rule, Limit: rule.Limit, Give: wire.GetGive(), GivenFrom: micros(wire.GetGivenFromUs()),
		Need: wire.GetNeed(), Want: wire.GetWant(), Member: wire.GetMember(),
	}
	return rule.Limit.Validate(rule.Algorithm)
}
