// Package service is CheckService, whatever protocol its callers speak: messages
// in, messages out, errors as Connect's (gRPC's codes are the same).
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/members"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

const (
	// BatchMax bounds the requests or asks of one call.
	BatchMax = 256
	// batchAtOnce of a batch wait for the store at the same time: those of one
	// subject queue behind each other anyway.
	batchAtOnce = 64
)

// Service implements checkv1.CheckServiceHandler. Safe for concurrent use.
type Service struct {
	engine  *decide.Engine
	store   store.Store
	roster  members.Roster
	podOnly func(context.Context) error
	log     *slog.Logger
}

// Config is what a Service is made of.
type Config struct {
	Engine *decide.Engine
	Store  store.Store    // what Acquire asks
	Roster members.Roster // of the pods that share it
	// PodOnly returns why a caller may not Acquire, as an error of Connect.
	PodOnly func(context.Context) error
	Logger  *slog.Logger
}

// New makes a service.
func New(cfg Config) *Service {
	return &Service{engine: cfg.Engine, store: cfg.Store, roster: cfg.Roster, podOnly: cfg.PodOnly, log: cfg.Logger}
}

var _ checkv1.CheckServiceHandler = (*Service)(nil)

// Check implements CheckService.
func (s *Service) Check(ctx context.Context, q *checkv1.CheckRequest) (*checkv1.CheckResponse, error) {
	answer, err := s.check(ctx, q)
	if err != nil {
		return nil, requestError(err)
	}
	if answer.GetVerdict() == checkv1.Verdict_VERDICT_UNAVAILABLE {
		return nil, unavailable(answer)
	}
	return answer, nil
}

// check decides one request. A fault of ours is one request's: it must not end the
// process with all the others.
func (s *Service) check(ctx context.Context, q *checkv1.CheckRequest) (r *checkv1.CheckResponse, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.panicked("check", p)
			r, err = nil, errInternal
		}
	}()
	entries := make([]decide.Entry, len(q.GetEntries()))
	for i, e := range q.GetEntries() {
		entries[i] = decide.Entry{Rule: e.GetRule(), Key: e.GetKey(), Cost: 1}
		if e.Cost != nil {
			entries[i].Cost = e.GetCost()
		}
	}
	answer, err := s.engine.Check(ctx, q.GetDomain(), entries)
	if err != nil {
		return nil, err
	}
	defer answer.Release()
	return response(q, answer), nil
}

// CheckBatch implements CheckService.
func (s *Service) CheckBatch(ctx context.Context, q *checkv1.CheckBatchRequest) (*checkv1.CheckBatchResponse, error) {
	n := len(q.GetRequests())
	if n < 1 || n > BatchMax {
		return nil, badBatch("requests", n)
	}
	results := make([]*checkv1.CheckResult, n)
	var group errgroup.Group
	group.SetLimit(batchAtOnce)
	for i, request := range q.GetRequests() {
		group.Go(func() error {
			results[i] = s.result(ctx, request)
			return nil
		})
	}
	return &checkv1.CheckBatchResponse{Results: results}, group.Wait()
}

func (s *Service) result(ctx context.Context, q *checkv1.CheckRequest) *checkv1.CheckResult {
	if call := trace.SpanFromContext(ctx); call.IsRecording() { // a span tells of one decision
		var span trace.Span
		ctx, span = call.TracerProvider().Tracer("github.com/shiplane/limits/checker").Start(ctx, "request of a batch")
		defer span.End()
	}
	answer, err := s.check(ctx, q)
	if err != nil {
		return &checkv1.CheckResult{Result: &checkv1.CheckResult_Fault{Fault: &checkv1.CheckFault{NotFound: errors.Is(err, decide.ErrNotFound), Message: err.Error()}}}
	}
	return &checkv1.CheckResult{Result: &checkv1.CheckResult_Response{Response: answer}}
}

func badBatch(field string, n int) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s has %d of them: want 1 to %d", field, n, BatchMax))
}

func (s *Service) panicked(doing string, p any) {
	s.log.Error("a call panicked", "doing", doing, "panic", p, "stack", string(debug.Stack()))
}

// errInternal says nothing: what happened is in the log.
var errInternal = errors.New("the check failed; the log of the checker tells more")

func requestError(err error) error {
	code := connect.CodeInvalidArgument
	switch {
	case errors.Is(err, decide.ErrNotFound):
		code = connect.CodeNotFound
	case errors.Is(err, decide.ErrNoRules):
		code = connect.CodeUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	case errors.Is(err, errInternal):
		code = connect.CodeInternal
	}
	return connect.NewError(code, err)
}

// unavailable is the error of a request that a rule which fails closed could not
// decide; the response is in its details.
func unavailable(answer *checkv1.CheckResponse) error {
	code, text := connect.CodeUnavailable, "store_unavailable: the counter of a rule that fails closed could not be asked"
	if answer.GetCause() == checkv1.Cause_CAUSE_STORE_TIMEOUT {
		code, text = connect.CodeDeadlineExceeded, "store_timeout: the counter of a rule that fails closed did not answer in time"
	}
	failure := connect.NewError(code, errors.New(text))
	if detail, err := connect.NewErrorDetail(answer); err == nil { // else its keys are not UTF-8, and the code says enough
		failure.AddDetail(detail)
	}
	return failure
}

// verdicts and stages are the limiter's words in the contract's.
var (
	verdicts = map[limit.Verdict]checkv1.Verdict{
		limit.Allowed: checkv1.Verdict_VERDICT_ALLOWED, limit.Denied: checkv1.Verdict_VERDICT_DENIED, limit.Unavailable: checkv1.Verdict_VERDICT_UNAVAILABLE,
	}
	stages = map[limit.DecidedBy]checkv1.DecidedBy{
		limit.ByNoRule: checkv1.DecidedBy_DECIDED_BY_NO_RULE, limit.ByBan: checkv1.DecidedBy_DECIDED_BY_BAN, limit.ByCap: checkv1.DecidedBy_DECIDED_BY_CAP,
		limit.ByLease: checkv1.DecidedBy_DECIDED_BY_LEASE, limit.ByKnowledge: checkv1.DecidedBy_DECIDED_BY_KNOWLEDGE, limit.ByHold: checkv1.DecidedBy_DECIDED_BY_HOLD,
		limit.ByMitigation: checkv1.DecidedBy_DECIDED_BY_MITIGATION, limit.ByStore: checkv1.DecidedBy_DECIDED_BY_STORE,
		limit.ByFallback: checkv1.DecidedBy_DECIDED_BY_FALLBACK, limit.ByFailClosed: checkv1.DecidedBy_DECIDED_BY_FAIL_CLOSED,
	}
)

// cause is why a store gave no answer.
func cause(err error) checkv1.Cause {
	switch {
	case err == nil:
		return checkv1.Cause_CAUSE_UNSPECIFIED
	case errors.Is(err, store.ErrTimeout):
		return checkv1.Cause_CAUSE_STORE_TIMEOUT
	default:
		return checkv1.Cause_CAUSE_STORE_UNAVAILABLE
	}
}

// response says in the contract's words what became of a request.
func response(q *checkv1.CheckRequest, a *decide.Answer) *checkv1.CheckResponse {
	d := &a.Decision
	r := &checkv1.CheckResponse{
		Verdict: verdicts[d.Verdict], DecidedBy: stages[d.DecidedBy], Cause: cause(d.Cause),
		Entries: make([]*checkv1.Outcome, 0, len(q.GetEntries())),
	}
	refused := a.Refused()
	for i, e := range q.GetEntries() {
		o := a.Outcome(i)
		if o == nil {
			continue
		}
		if i == refused {
			at := int32(len(r.Entries)) //nolint:gosec // at most decide.EntriesMax
			r.Refused = &at
		}
		r.Entries = append(r.Entries, outcome(e, o, a.Shadowed(o)))
	}
	if after, ok := a.RetryAfter(); ok {
		r.RetryAfter = durationpb.New(after)
	}
	return r
}

func outcome(e *checkv1.Entry, o *limit.Outcome, shadowed bool) *checkv1.Outcome {
	made := &checkv1.Outcome{
		Rule: e.GetRule(), Key: e.GetKey(), Cost: o.Cost, Short: o.Short, Never: o.Never, Banned: o.Banned,
		Shadow: shadowed, DecidedBy: stages[o.DecidedBy], Size: o.Limit.Size(), Rate: float64(o.Limit.Rate),
	}
	if o.Limit.Window > 0 {
		made.Window = durationpb.New(o.Limit.Window)
	}
	if o.Known {
		remaining := o.Remaining // the outcome's memory is used again
		made.Remaining, made.Reset_ = &remaining, durationpb.New(o.Reset)
	}
	if o.Short && !o.Never && !o.Banned {
		made.RetryAfter = durationpb.New(o.Retry)
	}
	return made
}

// micros is a time of the wire; one that no time.Duration can hold is the longest.
func micros(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(max(-most, min(n, most))) * time.Microsecond
}
