package sim

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// ruleKinds are rules of other kinds beside the account's bucket: of an address,
// counted after, in shadow.
func ruleKinds() []Scenario {
	return []Scenario{
		{Name: "an address and an account, 0.9 R", Limit: enterprise, Load: addressed(0.9), Want: Want{OfOffered: 0.999}, Check: sameAdmitted},
		{Name: "an address and an account, 1.5 R", Limit: enterprise, Load: addressed(1.5), Want: Want{OfBound: 0.99}, Check: sameAdmitted},
		{Name: "an address and an account, the store flaky", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.flaky(w.regions[0], 0.05)
			addressed(1.5)(w, k, end)
		}, Want: Want{OfEntitled: 0.9}},
		{Name: "refused by the account, back to the address", Limit: enterprise, For: 8 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
			ip := w.NewKey("203.0.113.7", "address", limit.Limit{Rate: 1.0 / 60, Burst: 20}, kind(limit.IP))
			w.Poisson(k.rate(50), 0, end/2, w.on(upTo(50), "flood", k, 1))
			w.Burst(end/4, time.Second, 500, func() { w.Arrive(w.rng.IntN(50), "probe", Part{ip, 1}, Part{k, 1}) })
			w.at(3*end/4, func() {
				for range 20 - w.class("probe").Admitted {
					w.Arrive(0, "after", Part{ip, 1}, Part{k, 1})
				}
			})
		}, Want: Want{ClassOf: map[string]float64{"after": 1}}, Check: lostAtMost(0)},
		{Name: "400,000/s from one address, counted after", Limit: enterprise, Slow: true, For: 2 * time.Second, Load: func(w *World, _ *Key, end time.Duration) {
			ip := w.NewKey("203.0.113.7", "flood", limit.Limit{Rate: 1000, Burst: 2000}, kind(limit.IP), after)
			w.Poisson(400_000, 0, end, w.on(upTo(50), "flood", ip, 1))
		}, Want: Want{Calls: 50 * 20}, Check: func(w *World, _ *Key) []string {
			offered := w.class("flood").Offered
			if got := w.keys[1].whole.between(200*ms, 2*time.Second); got > offered/100 {
				return []string{fmt.Sprintf("%d of %d passed from 200 ms on, want at most 1 %%", got, offered)}
			}
			return nil
		}},
		{Name: "a rule of 100/s in shadow, 900/s", Limit: enterprise, Load: shadowed, Want: Want{OfOffered: 0.999, Calls: 600}, Check: shadowTold},
	}
}

// shadowTold: 200 and then 100/s of 900/s pass the rule in 12 s.
func shadowTold(w *World, k *Key) []string {
	told, admitted := w.told["trial"], k.whole.admitted
	short := float64(told.Short) / float64(told.Requests)
	if told.Requests != admitted || short < 0.84 || short > 0.90 {
		return []string{fmt.Sprintf("shadow told %d requests of %d admitted, %.1f %% short, want all and 84 to 90 %%", told.Requests, admitted, 100*short)}
	}
	return nil
}

// counts are windows and logs beside the account's bucket.
func counts() []Scenario {
	return []Scenario{
		{Name: "a daily quota of 15,000, 1,500/s", Limit: roomy, For: 15 * time.Second, Load: counted(limit.Limit{Count: 15_000, Window: 24 * time.Hour}, 1500), Want: Want{OfEntitled: 1}, Check: func(w *World, _ *Key) []string {
			if got := w.keys[1].whole.admitted; got != 15_000 {
				return []string{fmt.Sprintf("the quota admitted %d, want 15000 exactly", got)}
			}
			return nil
		}},
		{Name: "10,000 a window of 5 s, 3,000/s", Limit: roomy, For: 20 * time.Second, Load: counted(limit.Limit{Count: 10_000, Window: 5 * time.Second}, 3000), Want: Want{OfEntitled: 0.995}, Check: func(w *World, _ *Key) []string {
			var faults []string
			for from := time.Duration(0); from < 20*time.Second; from += 5 * time.Second {
				if got := w.keys[1].whole.between(from, from+5*time.Second); got > 10_000 {
					faults = append(faults, fmt.Sprintf("admitted %d in the window from %v, want at most 10000", got, from))
				}
			}
			return faults
		}},
		{Name: "logins: 5 in 10 s a user, 4 users at 3/s each", Limit: roomy, For: 60 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
			for i := range 4 {
				name := fmt.Sprint("user-", i)
				login := w.NewKey(name, "login", limit.Limit{Count: 5, Window: 10 * time.Second}, kind(limit.User), slidingLog, closed)
				w.Poisson(3, 0, end, func() { w.Arrive(w.rng.IntN(50), name, Part{login, 1}, Part{k, 1}) })
			}
		}, Want: Want{OfEntitled: 0.99}},
		{Name: "bucket, quota and log of one account, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			quota := w.NewKey("acme", "quota", limit.Limit{Count: 1_000_000, Window: 24 * time.Hour})
			log := w.NewKey("acme", "exports", limit.Limit{Count: 10, Window: 5 * time.Second}, slidingLog, closed)
			w.Poisson(k.rate(0.9), 0, end, func() { w.Arrive(w.rng.IntN(50), "all", Part{k, 1}, Part{quota, 1}) })
			w.Poisson(4, 0, end, func() { w.Arrive(w.rng.IntN(50), "export", Part{k, 1}, Part{quota, 1}, Part{log, 1}) })
		}, Want: Want{ClassOf: map[string]float64{"all": 0.999}, Class: map[string]float64{"export": 0.95}}},
	}
}

// addressed is traffic of one account from twenty addresses at x times its rate.
func addressed(x float64) func(*World, *Key, time.Duration) {
	return func(w *World, k *Key, end time.Duration) {
		var ips []*Key
		for i := range 20 {
			ips = append(ips, w.NewKey(fmt.Sprint("203.0.113.", i), "address", limit.Limit{Rate: 200, Burst: 400}, kind(limit.IP)))
		}
		w.Poisson(k.rate(x), 0, end, func() { w.Arrive(w.rng.IntN(50), "all", Part{ips[w.rng.IntN(20)], 1}, Part{k, 1}) })
	}
}

// sameAdmitted says that the addresses were charged for what the account
// admitted and no more: what it refused went back to them.
func sameAdmitted(w *World, k *Key) []string {
	var charged, back int64
	for _, other := range w.keys {
		if other != k {
			charged += other.whole.charged
			back += other.whole.given
		}
	}
	if charged-back != k.whole.admitted {
		return []string{fmt.Sprintf("the addresses were charged %d, the account admitted %d", charged-back, k.whole.admitted)}
	}
	return nil
}

// counted is traffic at a rate over a window of the account.
func counted(l limit.Limit, rate float64) func(*World, *Key, time.Duration) {
	return func(w *World, k *Key, end time.Duration) {
		quota := w.NewKey("acme", "quota", l)
		w.Poisson(rate, 0, end, func() { w.Arrive(w.rng.IntN(50), "all", Part{k, 1}, Part{quota, 1}) })
	}
}

func shadowed(w *World, k *Key, end time.Duration) {
	trial := w.NewKey("acme", "trial", growth, shadow)
	w.Poisson(k.rate(0.9), 0, end, func() { w.Arrive(w.rng.IntN(50), "all", Part{k, 1}, Part{trial, 1}) })
}
