package failover_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	"github.com/shiplane/limits/perf/failover"
)

const (
	patience    = 60 * time.Second // bounds one outage on a busy machine
	nodeTimeout = 3 * time.Second
	pods        = 4
	// timeout is ten times production's, for the machine runs other tests too.
	timeout = 50 * time.Millisecond
	// longest is what no request may take, beyond what this process was late.
	longest = 100 * time.Millisecond
	slot    = 100 // its primary fails
)

// What callers see while a primary fails, mode by mode, on one cluster.
func TestOutages(t *testing.T) {
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{
		Replicas: 1, NodeTimeout: nodeTimeout, RedisConfig: testenv.RedisConfig{Proxied: true},
	})
	for _, mode := range []failover.Mode{failover.Kill, failover.Freeze, failover.Delay, failover.Loss, failover.Partition} {
		t.Run(string(mode), func(t *testing.T) { outage(t, c, mode) })
	}
}

func outage(t *testing.T, c *testenv.RedisCluster, mode failover.Mode) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if err := c.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	failed, err := c.PrimaryOf(ctx, slot)
	if err != nil {
		t.Fatal(err)
	}
	f, err := failover.StartFleet(ctx, c, failover.Config{Pods: pods, Scale: 1, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	settle(ctx, t, f, 4)
	goroutines := runtime.NumGoroutine()
	o, err := f.Fail(ctx, c, mode, slot, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("opened after %v, back after %v, all closed %v later", o.Opened-o.Began, o.Back-o.Began, o.Ended-o.Back)
	if grown := runtime.NumGoroutine() - goroutines; grown > 500 {
		t.Errorf("%d goroutines more than before", grown)
	}
	answered(t, f, o)
	admitted(t, f, o, mode)
	othersNoticeNothing(t, f, o)
	recovers(ctx, t, f, o, mode)
	switch mode {
	case failover.Kill:
		err = failed.Restart(ctx)
	case failover.Freeze:
		err = failed.Thaw() // an old primary that thinks it still is one
	}
	if err != nil {
		t.Fatal(err)
	}
	settle(ctx, t, f, 4)
}

// settle lets some slots pass.
func settle(ctx context.Context, t *testing.T, f *failover.Fleet, slots int) {
	t.Helper()
	end := f.Timeline.Now() + time.Duration(slots)*failover.SlotLength
	if err := failover.Poll(ctx, "time passes", func() bool { return f.Timeline.Now() > end }); err != nil {
		t.Fatal(err)
	}
}

// Requests of the shard are answered all the time, soon, and the breaker opens
// after three timeouts.
func answered(t *testing.T, f *failover.Fleet, o *failover.Outage) {
	t.Helper()
	hit := failover.OfShard(o.Shard, true)
	stall := f.Timeline.Stall(o.Began, o.Ended)
	p99, most := f.Timeline.Latency(99, hit)
	t.Logf("requests of the shard: p99 %v, longest %v; this process was late by %v", p99, most, stall)
	if most > longest+2*stall {
		t.Errorf("a request took %v, want %v at most; this process was late by %v", most, longest, stall)
	}
	if first := o.Opened - o.Began; first > 6*timeout+2*stall {
		t.Errorf("the first breaker opened after %v, want 3 timeouts of %v and the time between requests", first, timeout)
	}
	for i, s := range f.Timeline.Slots(hit) {
		at := time.Duration(i) * failover.SlotLength
		if at > o.Began && at+failover.SlotLength < o.Ended && s.Admitted+s.Refused == 0 && stall < failover.SlotLength {
			t.Errorf("no request was decided between %v and %v", at, at+failover.SlotLength)
		}
	}
}

// Open rules admit within the bound of an outage and starve nobody; a closed rule
// admits only what was paid for before.
func admitted(t *testing.T, f *failover.Fleet, o *failover.Outage, mode failover.Mode) {
	t.Helper()
	for _, s := range f.Streams {
		if s.Shard != o.Shard {
			continue
		}
		only := func(other *failover.Stream) bool { return other == s }
		sum := f.Timeline.Between(o.Began, o.Ended, only)
		bound := s.Bound(o.Seconds(), pods)
		if mode == failover.Delay || mode == failover.Loss {
			bound += bound / 2 // replies that do come in time are the store's own limit
		}
		t.Logf("%-5s admitted %d tokens, bound %d: %+v", s.Name, sum.Tokens, bound, sum)
		if sum.Tokens > bound {
			t.Errorf("%s: %d tokens were admitted in %.1f s, want %d at most", s.Name, sum.Tokens, o.Seconds(), bound)
		}
		if s.FailMode == limit.FailOpen {
			if least := int64(0.7 * float64(s.Limit.Rate) * (o.Seconds() - 1)); sum.Tokens < least {
				t.Errorf("%s: %d tokens were admitted in %.1f s, want %d at least", s.Name, sum.Tokens, o.Seconds(), least)
			}
			continue
		}
		if sum.By[limit.ByFallback] > 0 {
			t.Errorf("%s: the fallback decided %d requests", s.Name, sum.By[limit.ByFallback])
		}
		if mode == failover.Loss {
			continue // some are answered
		}
		// By then no lease is left.
		if late := f.Timeline.Between(o.Opened+1500*time.Millisecond, o.Back, only); late.Admitted > 0 || late.By[limit.ByFailClosed] == 0 {
			t.Errorf("%s: without the store %d were admitted, %d unavailable", s.Name, late.Admitted, late.By[limit.ByFailClosed])
		}
	}
}

// Keys of other shards are decided as always.
func othersNoticeNothing(t *testing.T, f *failover.Fleet, o *failover.Outage) {
	t.Helper()
	for _, c := range f.Timeline.Changes() {
		if c.Shard != o.Name && c.To == breaker.Open && c.At > o.Began {
			t.Errorf("pod %d: the breaker of shard %s opened at %v", c.Pod, c.Shard, c.At)
		}
	}
	sum := f.Timeline.Between(o.Began, o.Ended, failover.OfShard(o.Shard, false))
	failed := sum.By[limit.ByFallback] + sum.By[limit.ByFailClosed]
	if all := sum.Admitted + sum.Refused + sum.Unavailable; all == 0 || failed*10 > all { // but for calls that a busy machine lets time out
		t.Errorf("of %d requests of other shards %d were decided without the store", all, failed)
	}
}

// Soon after a replica has taken over, or the wire is healed, everything is as
// before, without a restart.
func recovers(ctx context.Context, t *testing.T, f *failover.Fleet, o *failover.Outage, mode failover.Mode) {
	t.Helper()
	if took, stall := o.Ended-o.Back, f.Timeline.Stall(o.Back, o.Ended); took > 3*time.Second+2*stall {
		t.Errorf("recovered after %v, want 2 s or so", took)
	}
	begin := f.Timeline.Now()
	settle(ctx, t, f, 4)
	sum := f.Timeline.Between(begin, f.Timeline.Now(), failover.OfShard(o.Shard, true))
	failed := sum.By[limit.ByFallback] + sum.By[limit.ByFailClosed]
	if all := sum.Admitted + sum.Refused + sum.Unavailable; all == 0 || failed*10 > all {
		t.Errorf("after %s: of %d requests %d were decided without the store", mode, all, failed)
	}
}
