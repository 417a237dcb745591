package convergence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/ruleset/feed"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const (
	fillers     = 8  // that write at once while a ruleset is made
	sizeChanges = 50 // of which the cost is the mean
)

// Size is what a ruleset costs a pod.
type Size struct {
	Rules, Overrides int

	First      time.Duration // from the start of the pod until it has rules
	FirstBytes int64         // that the pod received until then
	Heap       int64         // bytes that it holds then
	Bytes      int64         // that a change of one override sends, HTTP included
	Allocated  int64         // bytes that the pod allocates for it, with those of the client that asks for the change
	Applied    time.Duration // from asking until the pod goes by it, on average
}

// Measure makes a ruleset in an instance without a database, and measures a pod that
// follows it.
func Measure(ctx context.Context, rules, overrides int) (_ *Size, err error) {
	dir, err := os.MkdirTemp("", "convergence-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	i, err := newInstance(dir, 0, store{url: "memory"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.close()) }()
	if err := i.start(ctx); err != nil {
		return nil, err
	}
	revision, err := fill(ctx, i, rules, overrides)
	if err != nil {
		return nil, err
	}
	s := &Size{Rules: rules, Overrides: overrides}
	return s, s.follow(ctx, i, dir, revision)
}

// fill writes rules and overrides, and returns the last revision.
func fill(ctx context.Context, i *instance, rules, overrides int) (int64, error) {
	var last atomic.Int64
	if err := i.prepare(ctx, rules); err != nil {
		return 0, err
	}
	for n := range rules {
		answer, err := i.rules.PutRule(ctx, &rulesv1.PutRuleRequest{
			Domain: domain, Rule: ruleOf(n), Rollout: rulesv1.RolloutMode_ROLLOUT_MODE_IMMEDIATE, Write: &rulesv1.Write{ExpectedVersion: proto.Int64(0)},
		})
		if err != nil {
			return 0, err
		}
		last.Store(answer.GetRevision())
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range fillers {
		group.Go(func() error {
			for n := next.Add(1); n <= int64(overrides); n = next.Add(1) {
				revision, err := i.override(ctx, fmt.Sprintf("acct_%d", n))
				if err != nil {
					return err
				}
				for was := last.Load(); was < revision && !last.CompareAndSwap(was, revision); was = last.Load() {
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return last.Load(), err
}

// override makes one for an account, and returns the revision.
func (i *instance) override(ctx context.Context, account string) (int64, error) {
	answer, err := i.rules.CreateOverride(ctx, &rulesv1.CreateOverrideRequest{Domain: domain, Override: &rulesv1.Override{
		Rule: "rule-0", Key: account, Rate: proto.Float64(500), Burst: proto.Int64(1000), Reason: "launch week of this merchant",
	}})
	return answer.GetRevision(), err
}

// counted is a connection whose received bytes are counted.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// follow starts a pod, waits until it has a revision, and tells what it and changes
// cost.
func (s *Size) follow(ctx context.Context, i *instance, dir string, revision int64) error {
	var bytes atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return counted{conn, &bytes}, err
	}
	before, _ := memory()
	began := time.Now()
	p, err := startPod(feed.Config{Addresses: []string{i.url()}, TokenFile: podToken(dir), Dial: dial}, "pod-0")
	if err != nil {
		return err
	}
	defer p.close()
	f := &Fleet{pods: []*pod{p}}
	if err := f.settle(ctx, revision); err != nil {
		return err
	}
	s.First, s.FirstBytes = time.Since(began), bytes.Load()
	after, allocated := memory()
	s.Heap = after - before
	for n := range sizeChanges {
		asked := time.Now()
		revision, err := i.override(ctx, fmt.Sprintf("change_%d", n))
		if err != nil {
			return err
		}
		if err := f.settle(ctx, revision); err != nil {
			return err
		}
		notes := p.diary.notes()
		s.Applied += notes[len(notes)-1].at.Sub(asked) / sizeChanges
	}
	_, now := memory()
	s.Allocated = (now - allocated) / sizeChanges
	s.Bytes = (bytes.Load() - s.FirstBytes) / sizeChanges
	return nil
}

// memory returns what is held, and what was ever allocated.
func memory() (held, allocated int64) {
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.TotalAlloc)
}
