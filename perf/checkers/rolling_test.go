package checkers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// rollingRules fail closed: whatever nobody could be asked about is a request lost.
const rollingRules = `
plans: [{id: big}]
rules:
  - {id: account, plan: big, identity: api_key, algorithm: token_bucket, rate: 40/s, burst: 80, fail_mode: closed}
`

// The limit of rollingRules, and who comes up to it.
const (
	rollingRate, rollingBurst = 40, 80

	regulars     = 4                      // accounts under the limit,
	regularPause = 100 * time.Millisecond // between the requests of one at each of two gateways: 20/s in all
	newcomers    = 4                      // at each gateway that send as a new account each time, which no lease pays for,
	newPause     = 10 * time.Millisecond  // so often
	floodPause   = 10 * time.Millisecond  // between the requests of one account at each gateway: 200/s in all
)

// A rolling restart of three checkers under load, each drained as it is by default, loses no request of two gateways,
// refuses nobody under the limit, and admits nothing twice.
func TestRollingRestartLosesNothing(t *testing.T) {
	checkers, gateways := rollingFleet(t)
	by := newCaller(t)
	for _, g := range gateways {
		poll(t, "a checker decides", func() bool { return by.ask(g, "warm") == http.StatusOK })
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var answered, admitted, refused atomic.Int64
	begin := time.Now()
	under := func(g *program, account string) {
		if status := by.ask(g, account); status != http.StatusOK {
			t.Errorf("a request under the limit: %d", status)
		}
		answered.Add(1)
	}
	for _, g := range gateways {
		for n := range regulars {
			load.Go(func() { each(ctx, regularPause, func() { under(g, fmt.Sprint("acct-", n)) }) })
		}
		for range newcomers {
			load.Go(func() { each(ctx, newPause, func() { under(g, fmt.Sprint("new-", answered.Load())) }) })
		}
		load.Go(func() {
			each(ctx, floodPause, func() {
				switch status := by.ask(g, "flood"); status {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("a request of a flood: %d", status)
				}
			})
		})
	}
	for _, c := range checkers {
		c.end()
		c.again()
	}
	stop()
	load.Wait()
	most := rollingBurst + rollingRate*time.Since(begin).Seconds()
	t.Logf("%d under the limit; of a flood %d admitted of at most %.0f, %d refused, in %v", answered.Load(), admitted.Load(), most, refused.Load(), time.Since(begin))
	if got := float64(admitted.Load()); got > most || refused.Load() == 0 {
		t.Errorf("of a flood %.0f were admitted, want at most %.0f, and %d refused", got, most, refused.Load())
	}
	for _, g := range gateways {
		m := g.scrape()
		if n := m.sum(t, "shiplane_gateway_requests_total", `decided_by="fail_closed"`) + m.sum(t, "shiplane_gateway_requests_total", `decided_by="fallback"`); n > 0 {
			t.Errorf("%.0f requests were decided by fail mode", n)
		}
	}
}

// rollingFleet starts three checkers on one Redis, and two gateways over all of them.
func rollingFleet(t *testing.T) (checkers, gateways []*program) {
	t.Helper()
	redis := envtest.Redis(t, testenv.RedisConfig{})
	rules := file(t, "rules.yaml", rollingRules)
	var urls []string
	for i := range 3 {
		c := start(t, "checker", "--rules", rules, "--store", "redis://"+redis.Nodes()[0].Address(),
			"--store-timeout=1s", fmt.Sprint("--pod-id=checker-", i), "--region-pods=5") // a busy machine is no outage
		checkers, urls = append(checkers, c), append(urls, "http://"+c.api.String())
	}
	for i := range 2 {
		gateways = append(gateways, gatewayOver(t, rules, strings.Join(urls, ","), "--checker-timeout=1s", fmt.Sprint("--pod-id=gateway-", i), "--region-pods=5"))
	}
	return checkers, gateways
}

// each calls do every so often until ctx ends.
func each(ctx context.Context, every time.Duration, do func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
