package checkers

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// faultRules are wide: whoever is refused is so because nobody could be asked. A login
// asks twice, one after the other.
const faultRules = `
plans: [{id: big}]
routes: [{id: login, match: "POST /v1/login", user_field: username}]
rules:
  - {id: account, plan: big, identity: api_key, algorithm: token_bucket, rate: 1000000/s, burst: 1000000}
  - {id: login-ip, route: login, identity: ip, algorithm: sliding_log, limit: 1000, window: 1s}
  - {id: login-user, route: login, identity: user, algorithm: sliding_log, limit: 1000, window: 1h, fail_mode: closed}
`

// The load of a fault.
const (
	openWorkers, openEach = 8, 125 // requests, each of an account of its own but for one worker
	loginWorkers, logins  = 2, 100
	requestPause          = 10 * time.Millisecond // so that a probe falls into it

	lateMax   = 0.05 // part of the decisions that this machine may stall
	probesMax = 8    // until a checker that is back is used: 1 a second, of which this machine may stall some
)

// bench is one checker behind a wire, and a gateway before it.
type bench struct {
	*caller
	checker, gateway *program
	wire             *tcpproxy.Proxy
	seen             int // makes names that nobody has had
}

func newBench(t *testing.T) *bench {
	t.Helper()
	redis := envtest.Redis(t, testenv.RedisConfig{})
	rules := file(t, "rules.yaml", faultRules)
	b := &bench{caller: newCaller(t)}
	b.checker = start(t, "checker", "--rules", rules, "--store", "redis://"+redis.Nodes()[0].Address(), "--region-pods=2")
	wire, err := tcpproxy.Listen("127.0.0.1", b.checker.api.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wire.Close)
	b.wire = wire
	b.gateway = gatewayOver(t, rules, "http://"+wire.Address(), "--region-pods=2")
	return b
}

// healthy waits until the checker decides.
func (b *bench) healthy() {
	b.t.Helper()
	poll(b.t, "the checker decides", func() bool {
		b.seen++
		return b.login(b.gateway, fmt.Sprint("nobody-", b.seen)) == http.StatusOK
	})
}

// load sends requests, and returns how many had which status.
func (b *bench) load() (asked, loggedIn map[int]int) {
	asked, loggedIn = map[int]int{}, map[int]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	work := func(n int, counts map[int]int, send func(i int) int) {
		group.Go(func() {
			tick := time.NewTicker(requestPause)
			defer tick.Stop()
			for i := range n {
				status := send(i)
				mu.Lock()
				counts[status]++
				mu.Unlock()
				<-tick.C
			}
		})
	}
	b.seen++
	for w := range openWorkers {
		work(openEach, asked, func(i int) int {
			if w == 0 {
				return b.ask(b.gateway, "hot")
			}
			return b.ask(b.gateway, fmt.Sprintf("acct-%d-%d-%d", b.seen, w, i))
		})
	}
	for w := range loginWorkers {
		work(logins, loggedIn, func(i int) int { return b.login(b.gateway, fmt.Sprint("user-", w, i)) })
	}
	group.Wait()
	return asked, loggedIn
}

// fault is what befalls a checker.
type fault struct {
	name       string
	begin, end func(b *bench)
	sentMax    float64 // part of the asks
}

var faults = []fault{
	{
		name: "killed", sentMax: 0.5,
		begin: func(b *bench) {
			b.wire.Shut()
			b.checker.Kill()
			b.wire.Cut()
		},
		end: func(b *bench) {
			b.checker.again()
			if err := b.wire.Open(); err != nil {
				b.t.Fatal(err)
			}
		},
	},
	{
		name: "frozen", sentMax: 0.5,
		begin: func(b *bench) {
			if err := b.checker.Freeze(); err != nil {
				b.t.Fatal(err)
			}
		},
		end: func(b *bench) {
			if err := b.checker.Thaw(); err != nil {
				b.t.Fatal(err)
			}
		},
	},
	{
		name: "slow", sentMax: 0.5,
		begin: func(b *bench) { b.become(tcpproxy.Faults{Delay: 150 * time.Millisecond}) },
		end:   func(b *bench) { b.become(tcpproxy.Faults{}) },
	},
	{
		name: "cut off", sentMax: 1, // each failure shows by itself: it takes 20 in a second
		begin: func(b *bench) { b.become(tcpproxy.Faults{Cut: 1}) },
		end:   func(b *bench) { b.become(tcpproxy.Faults{}) },
	},
}

// become makes the wire what faults say.
func (b *bench) become(faults tcpproxy.Faults) {
	if err := b.wire.Set(faults); err != nil {
		b.t.Fatal(err)
	}
}

// While the only checker is dead, hangs, is slow, or its answers are lost, open rules
// admit, closed ones are unavailable, decisions wait no longer than the gateway allows a
// checker, most asks are not sent, none twice, and no connection is made without one; when it is
// back it decides again, without a restart and at one of the next probes.
func TestCheckerFails(t *testing.T) {
	b := newBench(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			b.healthy()
			before, accepted := b.gateway.scrape(), b.wire.Accepted()
			f.begin(b)
			asked, loggedIn := b.load()
			after := b.gateway.scrape()
			if want := map[int]int{http.StatusOK: openWorkers * openEach}; !maps.Equal(asked, want) {
				t.Errorf("an open rule: %v, want %v", asked, want)
			}
			if want := map[int]int{http.StatusServiceUnavailable: loginWorkers * logins}; !maps.Equal(loggedIn, want) {
				t.Errorf("a closed rule: %v, want %v", loggedIn, want)
			}
			if sent, asks := b.calm(t, before, after, accepted); sent > f.sentMax*asks {
				t.Errorf("%.0f of %.0f asks were sent", sent, asks)
			}
			b.recovers(t, f.end)
		})
	}
}

// Bursts in which a checker that is short of time runs, and stands still.
const (
	overloadRuns   = 10 * time.Millisecond
	overloadStands = 90 * time.Millisecond
)

// While the only checker gets a tenth of the time that it needs, it decides what it can,
// fail modes decide the rest, and nobody waits longer for it.
func TestOverloadedChecker(t *testing.T) {
	b := newBench(t)
	b.healthy()
	before, accepted := b.gateway.scrape(), b.wire.Accepted()
	stop := b.overload()
	asked, loggedIn := b.load()
	after := b.gateway.scrape()
	if want := map[int]int{http.StatusOK: openWorkers * openEach}; !maps.Equal(asked, want) {
		t.Errorf("an open rule: %v, want %v", asked, want)
	}
	if loggedIn[http.StatusOK]+loggedIn[http.StatusServiceUnavailable] != loginWorkers*logins || loggedIn[http.StatusServiceUnavailable] == 0 {
		t.Errorf("a closed rule: %v", loggedIn)
	}
	b.calm(t, before, after, accepted)
	b.recovers(t, func(*bench) { stop() })
}

// overload lets the checker run in short bursts only, until stop is called.
func (b *bench) overload() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for wait := time.Duration(0); ; {
			select {
			case <-done:
				return
			case <-time.After(wait):
			}
			err := b.checker.Freeze()
			<-time.After(overloadStands)
			if err = errors.Join(err, b.checker.Thaw()); err != nil {
				b.t.Error(err)
				return
			}
			wait = overloadRuns
		}
	})
	return func() { close(done); running.Wait() }
}

// calm checks that a fault made nobody wait, and no storm. It returns how many asks
// there were, and how many of them were sent.
func (b *bench) calm(t *testing.T, before, after page, accepted int64) (sent, asks float64) {
	t.Helper()
	grown := func(name string, labels ...string) float64 {
		return after.sum(t, name, labels...) - before.sum(t, name, labels...)
	}
	lateBefore, allBefore := before.late(t)
	late, all := after.late(t)
	if late, all = late-lateBefore, all-allBefore; late > lateMax*all || all == 0 {
		t.Errorf("%.0f of %.0f decisions waited for more than 32 ms", late, all)
	}
	name := fmt.Sprintf("checker=%q", b.wire.Address())
	sent, asks = grown("shiplane_store_call_duration_seconds_count", name), grown("shiplane_gateway_store_asks_total")
	if sent > asks+errandsAtOnce {
		t.Errorf("%.0f asks were sent %.0f times", asks, sent)
	}
	made, probes := b.wire.Accepted()-accepted, grown("shiplane_store_breaker_transitions_total", `to="probing"`)
	if float64(made) > sent+probes {
		t.Errorf("%d connections were made for %.0f asks and %.0f probes", made, sent, probes)
	}
	t.Logf("%.0f decisions, %.0f late; %.0f asks, of which %.0f were sent; %d connections; the breaker opened %.0f times",
		all, late, asks, sent, made, grown("shiplane_store_breaker_transitions_total", `to="open"`))
	return sent, asks
}

// errandsAtOnce may be on their way while a page is made.
const errandsAtOnce = 16

// recovers ends a fault, and checks that the checker is used again soon.
func (b *bench) recovers(t *testing.T, end func(*bench)) {
	t.Helper()
	end(b)
	poll(t, "the checker is ready", b.checker.ready)
	probes := b.gateway.scrape().sum(t, "shiplane_store_breaker_transitions_total", `to="probing"`)
	begin := time.Now()
	b.healthy()
	probes = b.gateway.scrape().sum(t, "shiplane_store_breaker_transitions_total", `to="probing"`) - probes
	t.Logf("it decides again after %v and %.0f probes", time.Since(begin), probes)
	if probes > probesMax {
		t.Errorf("a checker that is back was used after %.0f probes", probes)
	}
}
