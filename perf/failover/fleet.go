package failover

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
)

// Config says what load a fleet makes.
type Config struct {
	Pods    int           // 1 to 64
	Scale   float64       // times the load and the limits of Kinds; 0.1 to 1000
	Timeout time.Duration // of a call to the store; at least 1 ms
}

// Validate reports what is out of range.
func (c Config) Validate() error {
	switch {
	case c.Pods < 1 || c.Pods > 64:
		return fmt.Errorf("pods is %d: want 1 to 64", c.Pods)
	case !(c.Scale >= 0.1 && c.Scale <= 1000):
		return fmt.Errorf("scale is %v: want 0.1 to 1000", c.Scale)
	case c.Timeout < time.Millisecond:
		return fmt.Errorf("timeout is %v: want 1ms at least", c.Timeout)
	}
	return nil
}

// Fleet is pods that share a cluster, under load from Start to Close.
type Fleet struct {
	Timeline *Timeline
	Streams  []*Stream

	names  []string // of the shards, by number
	pods   []*pod
	cancel context.CancelFunc
	load   sync.WaitGroup
	edits  atomic.Pointer[map[string]ruling] // by kind: what stands for a stream's own rule
}

// pod is one process as the gateway would be, without its HTTP.
type pod struct {
	number   int
	store    *rediscluster.Store
	limiter  *limiter.Limiter
	timeline *Timeline
	shards   sync.Map // names that calls went to
}

// Call implements rediscluster.Observer.
func (p *pod) Call(shard, class string, _ time.Duration) {
	if class == "ok" {
		p.shards.LoadOrStore(shard, true)
	}
}

// Breaker implements rediscluster.Observer.
func (p *pod) Breaker(shard string, from, to breaker.State) {
	p.timeline.change(Change{Pod: p.number, Shard: shard, From: from, To: to})
}

// Clock implements rediscluster.Observer.
func (p *pod) Clock(string, time.Duration) {}

// readyTimeout bounds the start of a fleet.
const readyTimeout = 30 * time.Second

// StartFleet starts the pods and the load and returns when every pod knows every
// shard. ctx bounds the start.
func StartFleet(ctx context.Context, c *testenv.RedisCluster, cfg Config) (*Fleet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	names, shardOf, err := shards(ctx, c)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Timeline: newTimeline(), names: names}
	f.edits.Store(&map[string]ruling{})
	if f.Streams, err = streams(len(names), cfg.Scale, shardOf); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for i := range cfg.Pods {
		if err := f.startPod(i, c, cfg); err != nil {
			f.Close()
			return nil, err
		}
	}
	f.load.Go(func() { f.watchStalls(running) })
	for _, p := range f.pods {
		for i, s := range f.Streams {
			every := time.Duration(float64(cfg.Pods) / s.Rate * float64(time.Second))
			// Pods and streams are out of step.
			first := every * time.Duration(p.number*len(f.Streams)+i) / time.Duration(cfg.Pods*len(f.Streams))
			f.load.Go(func() { f.drive(running, p, s, first, every) })
		}
	}
	if err := f.ready(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *Fleet) startPod(number int, c *testenv.RedisCluster, cfg Config) error {
	p := &pod{number: number, timeline: f.Timeline}
	silent := slog.New(slog.DiscardHandler) // the timeline tells
	var err error
	p.store, err = rediscluster.New(rediscluster.Config{
		URL: "redis://" + strings.Join(c.Addresses(), ","), Timeout: cfg.Timeout, Observer: p, Logger: silent,
	})
	if err != nil {
		return err
	}
	p.limiter, err = limiter.New(limiter.Config{Store: p.store, Pods: func() int { return cfg.Pods }, Logger: silent})
	if err != nil {
		p.store.Close()
		return err
	}
	f.pods = append(f.pods, p)
	return nil
}

// shards are the names by which the store knows the shards, by number, and which
// of them serves a key.
func shards(ctx context.Context, c *testenv.RedisCluster) (names []string, of func(key string) int, err error) {
	roles, err := c.Topology(ctx)
	if err != nil {
		return nil, nil, err
	}
	var bySlot [testenv.Slots]int
	for _, r := range roles {
		if len(r.Slots) == 0 {
			continue
		}
		for _, slots := range r.Slots {
			for slot := slots.First; slot <= slots.Last; slot++ {
				bySlot[slot] = len(names)
			}
		}
		names = append(names, fmt.Sprint(r.Slots[0].First))
	}
	return names, func(key string) int { return bySlot[c.SlotOf(key)] }, nil
}

// ready waits until every pod has had an answer from every shard.
func (f *Fleet) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return Poll(ctx, "every pod knows every shard", func() bool {
		for _, p := range f.pods {
			for _, name := range f.names {
				if _, known := p.shards.Load(name); !known {
					return false
				}
			}
		}
		return true
	})
}

// drive sends one stream's requests of one pod, each when it is due.
func (f *Fleet) drive(ctx context.Context, p *pod, s *Stream, first, every time.Duration) {
	var requests sync.WaitGroup
	defer requests.Wait()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for due := f.Timeline.Now() + first; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		for ; due <= f.Timeline.Now(); due += every {
			requests.Go(func() { f.check(p, s) })
		}
		timer.Reset(due - f.Timeline.Now())
	}
}

func (f *Fleet) check(p *pod, s *Stream) {
	now := ruling{rule: s.rule}
	if edited, ok := (*f.edits.Load())[s.Name]; ok {
		now = edited
	}
	request := limit.Request{Charges: []limit.Charge{{
		Subject: s.subject, Rule: now.rule, Limit: now.rule.Limit, Cost: now.rule.Charge(s.Cost), Banned: now.banned, Revision: now.rule.Version,
	}}}
	var decision limit.Decision
	sent := f.Timeline.Now()
	p.limiter.Check(context.Background(), &request, &decision)
	f.Timeline.record(s, sent, f.Timeline.Now()-sent, &decision)
}

// stallEvery is how often this process looks whether it is late.
const stallEvery = 5 * time.Millisecond

func (f *Fleet) watchStalls(ctx context.Context) {
	tick := time.NewTicker(stallEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		f.Timeline.stalled(max(0, now.Sub(last)-stallEvery))
		last = now
	}
}

// ruling is what the rules say of a kind of traffic.
type ruling struct {
	rule   *limit.Rule
	banned bool
}

// edit has the rules say something else of a kind of traffic. It is called by one
// goroutine at a time.
func (f *Fleet) edit(kind string, next ruling) {
	all := maps.Clone(*f.edits.Load())
	all[kind] = next
	f.edits.Store(&all)
}

// notClosed names the shards with breakers that are not closed, and how many.
func (f *Fleet) notClosed() string {
	var open []string
	for _, name := range f.names {
		if n := f.Timeline.NotClosed(name, f.Timeline.Now()); n > 0 {
			open = append(open, fmt.Sprintf("%s in %d pods", name, n))
		}
	}
	if len(open) == 0 {
		return "none"
	}
	return strings.Join(open, ", ")
}

// Close ends the load, waits for requests on their way, and ends the pods.
func (f *Fleet) Close() {
	f.cancel()
	f.load.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for _, p := range f.pods {
		_ = p.limiter.Close(ctx) // what it could not hand back refills
		p.store.Close()
	}
}

// pollEvery is the time between two looks at what is waited for.
const pollEvery = 10 * time.Millisecond

// Poll waits until something holds. The error says what did not before ctx ended.
func Poll(ctx context.Context, what string, holds func() bool) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w before it held that %s", ctx.Err(), what)
		case <-tick.C:
		}
	}
	return nil
}
