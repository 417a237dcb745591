package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
)

// podEnv tells a process that it is a pod, and of which store.
const podEnv = "PERF_REAL_STORE"

// callTimeout is generous: see doc.go.
const callTimeout = time.Second

// order is what a pod is told to play, a line of JSON each.
type order struct {
	Scenario, Pod int
	Account       string
	Seed          uint64
	Length        time.Duration
	Begin         time.Time
}

// Seen is what a pod saw, or several together.
type Seen struct {
	Offered, Admitted, Unknown, Local int64 // requests; Local: decided without a call of their own
	Calls                             int64 // to the store
}

func (s *Seen) add(o Seen) {
	s.Offered, s.Admitted, s.Unknown = s.Offered+o.Offered, s.Admitted+o.Admitted, s.Unknown+o.Unknown
	s.Local, s.Calls = s.Local+o.Local, s.Calls+o.Calls
}

// IsPod reports whether this process was started as a pod: then it has to call
// RunPod and nothing else.
func IsPod() bool { return os.Getenv(podEnv) != "" }

// RunPod plays what it is told on standard input until that ends, and tells on
// standard output what it saw.
func RunPod(in io.Reader, out io.Writer) error {
	s, err := rediscluster.New(rediscluster.Config{URL: os.Getenv(podEnv), Timeout: callTimeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	p := &pod{store: s}
	if err := p.connect(); err != nil {
		return err
	}
	if p.limiter, err = limiter.New(limiter.Config{Store: p, Pods: func() int { return Pods }}); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	orders, seen := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, p.limiter.Close(context.Background()))
		}
		saw, err := p.play(o)
		if err == nil {
			err = seen.Encode(saw)
		}
		if err != nil {
			return err
		}
	}
}

// pod is a limiter and the store that it calls, counted.
type pod struct {
	limiter *limiter.Limiter
	store   *rediscluster.Store
	calls   atomic.Int64
}

// Take implements store.Store.
func (p *pod) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	p.calls.Add(1)
	return p.store.Take(ctx, ask, result)
}

// connect waits until the store answers.
func (p *pod) connect() error {
	request, err := newRequest("nobody")
	if err != nil {
		return err
	}
	c := request.Charges[0]
	ask := store.Ask{Subject: c.Subject, Entries: []store.Entry{{Rule: c.Rule, Limit: c.Limit}}}
	for deadline := time.Now().Add(30 * time.Second); ; {
		var result store.Result
		if err = p.store.Take(context.Background(), &ask, &result); err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(10 * time.Millisecond)
	}
}

// play sends the arrivals of this pod at their times, or as soon after as the
// machine can, each in a goroutine of its own.
func (p *pod) play(o order) (Seen, error) {
	scenario := Scenarios()[o.Scenario]
	request, err := newRequest(o.Account)
	if err != nil {
		return Seen{}, err
	}
	var offered int64
	var admitted, unknown, local atomic.Int64
	before := p.calls.Load()
	var deciding sync.WaitGroup
	for _, a := range scenario.Arrivals(o.Seed, o.Length) {
		if a.Pod != o.Pod {
			continue
		}
		if wait := time.Until(o.Begin.Add(a.At)); wait > 0 {
			<-time.After(wait)
		}
		offered++
		deciding.Go(func() {
			own := limit.Request{Charges: append([]limit.Charge(nil), request.Charges...)}
			var d limit.Decision
			p.limiter.Check(context.Background(), &own, &d)
			switch {
			case d.DecidedBy >= limit.ByFallback:
				unknown.Add(1)
			case d.DecidedBy < limit.ByStore:
				local.Add(1)
			}
			if d.Verdict == limit.Allowed {
				admitted.Add(1)
			}
		})
	}
	deciding.Wait()
	return Seen{Offered: offered, Admitted: admitted.Load(), Unknown: unknown.Load(), Local: local.Load(), Calls: p.calls.Load() - before}, nil
}

// newRequest is one of cost 1 of an account.
func newRequest(account string) (limit.Request, error) {
	const domain, id = "real", "account"
	subject, err := limit.NewSubject(domain, limit.Account, account)
	rule := &limit.Rule{
		Domain: domain, ID: id, Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: Limit,
		Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests, Largest: 1, Tag: limit.TagOf(domain, id, limit.TokenBucket),
	}
	return limit.Request{Charges: []limit.Charge{{Subject: subject, Rule: rule, Limit: Limit, Cost: 1}}}, err
}
