package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// Whatever fails, whenever and with whatever else: no token is made, every
// request is decided, no closed rule lets anybody pass unpaid, and nothing
// panics.
func TestWhateverHappens(t *testing.T) {
	runs := uint64(60)
	if testing.Short() {
		runs = 10
	}
	for seed := range runs {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := trouble(t, seed)
			const end = 3 * time.Second
			w.run(end)
			for _, r := range w.regions {
				r.fault = nil
			}
			w.finish()
			if err := w.verify(); err != nil {
				t.Error(err)
			}
			if w.asked < 1000 || w.unknown == 0 {
				t.Errorf("%d requests and %d calls that failed are no test", w.asked, w.unknown)
			}
		})
	}
}

// trouble is a world in which much goes wrong, by its seed.
func trouble(t *testing.T, seed uint64) *World {
	t.Helper()
	cfg := Config{Pods: 8, RTT: 3 * time.Millisecond, Jitter: 0.9, Lag: 300 * time.Millisecond, Drift: 0.01, Accounts: 4, Seed: seed}
	if seed%3 == 0 {
		cfg.Shares = []limit.Share{600_000, 250_000, 150_000}
	}
	w, err := NewWorld(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var accounts, others [][]Part
	for i := range 8 {
		id := fmt.Sprint("shop-", i)
		account := Part{w.NewKey(id, "account", limit.Limit{Rate: 100, Burst: 200}, largest(10)), 1}
		trial := Part{w.NewKey(id, "trial", free, shadow), 1}
		address := Part{w.NewKey(fmt.Sprint("203.0.113.", i), "address", limit.Limit{Rate: 50, Burst: 100}, kind(limit.IP), closed), 1}
		accounts = append(accounts, []Part{account})
		others = append(others, []Part{account, trial}, []Part{address, account}, []Part{{account.Key, 10}})
		if len(w.regions) == 1 {
			quota := Part{w.NewKey(id, "quota", limit.Limit{Count: 150, Window: time.Second}), 1}
			exports := Part{w.NewKey(id, "exports", limit.Limit{Count: 5, Window: time.Second}, slidingLog, closed), 1}
			others = append(others, []Part{account, quota, trial}, []Part{address, account, quota, exports})
		}
	}
	arrive := func(from [][]Part) func() {
		return func() {
			live := w.rng.IntN(len(w.pods))
			for w.pods[live].down != "" {
				live = w.rng.IntN(len(w.pods))
			}
			w.Arrive(live, "all", from[w.rng.IntN(len(from))]...)
		}
	}
	w.Poisson(1000, 0, 3*time.Second, arrive(accounts))
	w.Poisson(1000, 0, 3*time.Second, arrive(others))
	for range 12 {
		w.at(time.Duration(w.rng.Int64N(int64(3*time.Second))), func() { w.strike(accounts[w.rng.IntN(8)][0].Key) })
	}
	return w
}

// strike does one thing that goes wrong, or is edited, at this moment.
func (w *World) strike(k *Key) {
	r := w.regions[w.rng.IntN(len(w.regions))]
	victim := w.rng.IntN(len(w.pods))
	stop := func(how string) {
		if p := w.pods[victim]; p.down == "" && p.region.live > 2 {
			w.Stop(victim, how)
			w.AddPods(p.region.id, 1)
		}
	}
	switch w.rng.IntN(8) {
	case 0:
		w.flaky(r, 0.5*w.rng.Float64())
	case 1:
		w.outage(r, w.now, w.now+100*ms, refused+fate(w.rng.IntN(3)))
	case 2:
		stop("crashed")
	case 3:
		stop("drained")
	case 4:
		w.Edit(k, limit.Limit{Rate: limit.Rate(1 + 200*w.rng.Float64()), Burst: 10 + w.rng.Int64N(300)})
	case 5:
		if len(w.regions) == 1 { // over regions whose clocks differ there is no one time to count in
			r.step(time.Duration(w.rng.Int64N(int64(4*time.Second))) - 2*time.Second)
		}
	case 6:
		w.AddPods(r.id, 2)
	case 7:
		r.restart()
	}
}
