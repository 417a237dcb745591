package service_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/checker/internal/grpcserver"
	"github.com/shiplane/limits/checker/internal/service"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

const rules = `
rules:
  - {id: open, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 10}
  - {id: closed, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 10, fail_mode: closed}
  - {id: trial, scope: all, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 1, mode: shadow}
overrides:
  - {rule: open, key: banned, deny: true}
`

// counters is a store that may fail, or panic.
type counters struct {
	store.Store
	mu    sync.Mutex
	err   error
	panic bool
	asked int
}

func (c *counters) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	c.mu.Lock()
	err, panics := c.err, c.panic
	c.asked++
	c.mu.Unlock()
	if panics {
		panic("a fault of ours") // what the service has to survive
	}
	if err != nil {
		return err
	}
	return c.Store.Take(ctx, ask, result)
}

// set says how the store fails; nil: it does not.
func (c *counters) set(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// live is rules that stand still.
type live struct{ *ruleset.Live }

func (live) Now() time.Time { return time.Now() }

// nobody observes.
type nobody struct{}

func (nobody) Decided(context.Context, *limit.Decision, *limit.Rule, bool) {}
func (nobody) Failed(context.Context, error)                               {}

type podKey struct{}

// newService makes a service before a store; calls of pods have a podKey.
func newService(t *testing.T) (*service.Service, *counters) {
	t.Helper()
	set, err := ruleset.OpenBytes("test", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	inside, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &counters{Store: inside}
	limits, err := limiter.New(limiter.Config{Store: c, Unpaced: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limits.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	engine := decide.New(decide.Config{Domains: map[string]decide.Source{"public-api": live{set}}, Limiter: limits, Mode: decide.Enforce, Observer: nobody{}})
	return service.New(service.Config{Engine: engine, Store: c, Logger: slog.New(slog.DiscardHandler), PodOnly: func(ctx context.Context) error {
		if ctx.Value(podKey{}) == nil {
			return connect.NewError(connect.CodePermissionDenied, errors.New("no pod"))
		}
		return nil
	}}), c
}

func checkOf(key string, rules ...string) *checkv1.CheckRequest {
	q := &checkv1.CheckRequest{Domain: "public-api"}
	for _, rule := range rules {
		q.Entries = append(q.Entries, &checkv1.Entry{Rule: rule, Key: key})
	}
	return q
}

// answerIn returns the answer that an error carries.
func answerIn(t *testing.T, err error) *checkv1.CheckResponse {
	t.Helper()
	var failure *connect.Error
	if !errors.As(err, &failure) || len(failure.Details()) != 1 {
		t.Fatalf("%v carries no answer", err)
	}
	m, err := failure.Details()[0].Value()
	if err != nil {
		t.Fatal(err)
	}
	return m.(*checkv1.CheckResponse)
}

// The words of the contract say what the limiter has said.
func TestAnswerSaysWhatWasDecided(t *testing.T) {
	s, _ := newService(t)
	a, err := s.Check(t.Context(), checkOf("acct", "open", "trial"))
	if err != nil {
		t.Fatal(err)
	}
	if a.GetVerdict() != checkv1.Verdict_VERDICT_ALLOWED || a.Refused != nil || a.GetRetryAfter() != nil || len(a.GetEntries()) != 2 ||
		a.GetEntries()[0].GetRemaining() != 9 || a.GetEntries()[0].GetShadow() || !a.GetEntries()[1].GetShadow() {
		t.Errorf("allowed: %v", a)
	}
	q := checkOf("acct", "closed", "open")
	ten := int64(10)
	q.Entries[1].Cost = &ten
	a, err = s.Check(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if a.GetVerdict() != checkv1.Verdict_VERDICT_DENIED || a.GetRefused() != 1 || a.GetRetryAfter().AsDuration() <= 0 ||
		!a.GetEntries()[1].GetShort() || a.GetEntries()[0].GetShort() {
		t.Errorf("denied: %v", a)
	}
	a, err = s.Check(t.Context(), checkOf("banned", "open"))
	if err != nil || !a.GetEntries()[0].GetBanned() || a.GetDecidedBy() != checkv1.DecidedBy_DECIDED_BY_BAN || a.GetRetryAfter() != nil {
		t.Errorf("banned: %v, %v", a, err)
	}
}

// A closed rule whose counter is away is an error with its cause and the whole answer,
// by gRPC's status too; an open rule is decided by its fail mode.
func TestFailModesDecideWhileTheStoreIsAway(t *testing.T) {
	for want, c := range map[checkv1.Cause]struct {
		err  error
		code connect.Code
		text string
	}{
		checkv1.Cause_CAUSE_STORE_TIMEOUT:     {store.ErrTimeout, connect.CodeDeadlineExceeded, "store_timeout"},
		checkv1.Cause_CAUSE_STORE_UNAVAILABLE: {store.ErrUnavailable, connect.CodeUnavailable, "store_unavailable"},
	} {
		s, counters := newService(t)
		counters.set(c.err)
		open, err := s.Check(t.Context(), checkOf("acct", "open"))
		if err != nil || open.GetVerdict() != checkv1.Verdict_VERDICT_ALLOWED || open.GetDecidedBy() != checkv1.DecidedBy_DECIDED_BY_FALLBACK || open.GetCause() != want {
			t.Errorf("%v, an open rule: %v, %v", want, open, err)
		}
		_, err = s.Check(t.Context(), checkOf("acct", "open", "closed"))
		if connect.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Fatalf("%v, a closed rule: %v", want, err)
		}
		if a := answerIn(t, err); a.GetVerdict() != checkv1.Verdict_VERDICT_UNAVAILABLE || a.GetCause() != want || len(a.GetEntries()) != 2 {
			t.Errorf("%v: the error carries %v", want, a)
		}
		if s := status.Convert(grpcserver.Status(err)); s.Code() != codes.Code(c.code) || len(s.Details()) != 1 {
			t.Errorf("%v: the status is %v", want, s)
		}
		// In a batch what was decided stands in its place.
		batch, err := s.CheckBatch(t.Context(), &checkv1.CheckBatchRequest{Requests: []*checkv1.CheckRequest{checkOf("b", "open"), checkOf("b", "closed")}})
		if err != nil || batch.GetResults()[1].GetResponse().GetVerdict() != checkv1.Verdict_VERDICT_UNAVAILABLE || batch.GetResults()[0].GetResponse().GetVerdict() != checkv1.Verdict_VERDICT_ALLOWED {
			t.Errorf("%v: batch %v, %v", want, batch, err)
		}
	}
}

// Answers that are given at the same time share no memory: each says what its own
// key has left.
func TestAnswersAreTheirOwn(t *testing.T) {
	s, _ := newService(t)
	var requests []*checkv1.CheckRequest
	for range 100 {
		requests = append(requests, checkOf("first", "open"), checkOf("second", "closed"))
	}
	batch, err := s.CheckBatch(t.Context(), &checkv1.CheckBatchRequest{Requests: requests})
	if err != nil {
		t.Fatal(err)
	}
	left := map[string][]int64{}
	for _, r := range batch.GetResults() {
		a := r.GetResponse()
		if key := a.GetEntries()[0].GetKey(); a.GetVerdict() == checkv1.Verdict_VERDICT_ALLOWED {
			left[key] = append(left[key], a.GetEntries()[0].GetRemaining())
		}
	}
	for key, got := range left {
		slices.Sort(got)
		if !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("%s was told that it has left %v", key, got)
		}
	}
	if len(left) != 2 {
		t.Errorf("answers of %d keys", len(left))
	}
}

// A panic is told to the call that met it, and ends neither a batch nor the process.
func TestPanicIsOneCallsFault(t *testing.T) {
	s, counters := newService(t)
	counters.mu.Lock()
	counters.panic = true
	counters.mu.Unlock()
	pod := context.WithValue(t.Context(), podKey{}, true)
	a, err := s.Acquire(pod, &checkv1.AcquireRequest{Asks: []*checkv1.Ask{ask("a"), ask("b")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.GetResults() {
		if r.GetCause() != checkv1.Cause_CAUSE_STORE_TIMEOUT {
			t.Errorf("got %v", r)
		}
	}
}

func ask(id string) *checkv1.Ask {
	return &checkv1.Ask{Domain: "public-api", Kind: checkv1.SubjectKind_SUBJECT_KIND_ACCOUNT, Id: []byte(id), Entries: []*checkv1.AskEntry{
		{Rule: "open", Tag: 1, Counter: checkv1.Counter_COUNTER_TOKEN_BUCKET, Rate: 1, Size: 10, Need: 1, Want: 4},
		{Rule: "daily@3", Tag: 2, Counter: checkv1.Counter_COUNTER_FIXED_WINDOW, Size: 10, WindowUs: 86_400_000_000, Need: 1, Want: 1},
	}}
}

// Acquire takes and gives back as the store does, for pods only; a malformed ask
// charges nobody, not even the good ones before it.
func TestAcquire(t *testing.T) {
	s, counters := newService(t)
	if _, err := s.Acquire(t.Context(), &checkv1.AcquireRequest{Asks: []*checkv1.Ask{ask("a")}}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("a caller that is no pod: %v", err)
	}
	pod := context.WithValue(t.Context(), podKey{}, true)
	for name, spoil := range map[string]func(*checkv1.Ask){
		"asks[1]: entries[0]: rate":    func(a *checkv1.Ask) { a.Entries[0].Rate = -1 },
		"asks[1]: entries[1]: counter": func(a *checkv1.Ask) { a.Entries[1].Counter = 9 },
		"asks[1]: entries[0]: rule":    func(a *checkv1.Ask) { a.Entries[0].Rule = "a b" },
		"asks[1]: ":                    func(a *checkv1.Ask) { a.Entries[0].Give = -1 },
		"asks[1]: subject":             func(a *checkv1.Ask) { a.Id = make([]byte, 65) },
	} {
		bad := ask("b")
		spoil(bad)
		if _, err := s.Acquire(pod, &checkv1.AcquireRequest{Asks: []*checkv1.Ask{ask("a"), bad}}); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{0, service.BatchMax + 1} {
		if _, err := s.Acquire(pod, &checkv1.AcquireRequest{Asks: slices.Repeat([]*checkv1.Ask{ask("a")}, n)}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%d asks: %v", n, err)
		}
	}
	if counters.asked != 0 {
		t.Errorf("the store was asked %d times for what was refused", counters.asked)
	}
	got, err := s.Acquire(pod, &checkv1.AcquireRequest{Asks: []*checkv1.Ask{ask("a")}})
	if err != nil || !got.GetResults()[0].GetAllowed() || got.GetResults()[0].GetOutcomes()[0].GetGranted() != 4 || got.GetResults()[0].GetOutcomes()[1].GetRemaining() != 9 {
		t.Fatalf("got %v, %v", got, err)
	}
	back := ask("a")
	back.Entries = back.Entries[:1]
	back.Entries[0].Need, back.Entries[0].Want, back.Entries[0].Give, back.Entries[0].GivenFromUs = 0, 0, 4, got.GetResults()[0].GetAtUs()
	got, err = s.Acquire(pod, &checkv1.AcquireRequest{Asks: []*checkv1.Ask{back}})
	if err != nil || got.GetResults()[0].GetOutcomes()[0].GetRemaining() != 10 {
		t.Errorf("after a hand-back: %v, %v", got, err)
	}
	counters.set(store.ErrTimeout)
	got, err = s.Acquire(pod, &checkv1.AcquireRequest{Asks: []*checkv1.Ask{ask("a"), ask("b")}})
	if err != nil || got.GetResults()[1].GetCause() != checkv1.Cause_CAUSE_STORE_TIMEOUT {
		t.Errorf("a store that is slow: %v, %v", got, err)
	}
}

// A call that has ended before it was looked at charges nobody.
func TestEndedCallChargesNobody(t *testing.T) {
	s, counters := newService(t)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Check(ended, checkOf("acct", "open")); connect.CodeOf(err) != connect.CodeCanceled || counters.asked != 0 {
		t.Errorf("got %v, %d calls of the store", err, counters.asked)
	}
}
