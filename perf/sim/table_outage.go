package sim

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// outage lets every call of the region fail from one time on until another.
func (w *World) outage(r *region, from, to time.Duration, how fate) {
	w.at(from, func() { r.fault = func() fate { return how } })
	w.at(to, func() { r.fault = nil })
}

// flaky lets that part of the calls fail, each way as often.
func (w *World) flaky(r *region, part float64) {
	r.fault = func() fate {
		if w.rng.Float64() >= part {
			return answered
		}
		return refused + fate(w.rng.IntN(3))
	}
}

var phases = []string{"before", "during", "after"}

// out is an outage of the store from a third of the run to two thirds.
func out(name string, l limit.Limit, x float64, how fate, want Want) Scenario {
	return Scenario{Name: name, Limit: l, For: 12 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
		w.outage(w.regions[0], end/3, 2*end/3, how)
		w.phased(x, k, end, phases, end/3, 2*end/3)
	}, Want: want, Check: func(_ *World, k *Key) []string {
		return outageBound(k, 50, 4*time.Second, 8*time.Second)
	}}
}

// outageBound is what may be admitted while the store is away: twice what the
// limit says, one request a pod, and what was on lease.
func outageBound(k *Key, pods int64, from, to time.Duration) []string {
	m, l := k.whole, k.Limit()
	most := 2*(float64(l.Burst)+float64(l.Rate)*(to-from).Seconds()) + float64(pods*k.Rule.Largest) + float64(m.outTop)
	if got := float64(m.between(from, to)); got > most {
		return []string{fmt.Sprintf("admitted %.0f in the outage, want at most %.0f", got, most)}
	}
	return nil
}

// overAtMost says that no more than burst + rate · t + n was admitted.
func overAtMost(m *meter, n int64) []string {
	if over := m.overshootAny(nil); over > float64(n)+0.1 { // clocks count whole µs
		return []string{fmt.Sprintf("admitted %.1f above burst + rate · t, want at most %d", over, n)}
	}
	return nil
}

// outages are stores that fail: all calls or some, at every time.
func outages() []Scenario {
	calm := Want{ClassOf: map[string]float64{"before": 0.999, "during": 0.99, "after": 0.999}}
	busy := Want{Class: map[string]float64{"before": 0.99, "after": 0.99}}
	few := Want{Class: map[string]float64{"before": 0.95, "after": 0.95}} // of some 60 tokens two or three are not asked for yet when a phase ends
	all := upTo(50)
	lostReplies := func(part float64, x float64) func(*World, *Key, time.Duration) {
		return func(w *World, k *Key, end time.Duration) {
			w.flaky(w.regions[0], part)
			steady(x, all)(w, k, end)
		}
	}
	return []Scenario{
		out("the store is away for 4 s, 0.9 R", enterprise, 0.9, askLost, calm),
		out("connections are refused for 4 s, 0.9 R", enterprise, 0.9, refused, calm),
		out("all replies are lost for 4 s, 0.9 R", enterprise, 0.9, replyLost, Want{ClassOf: map[string]float64{"before": 0.999, "during": 0.98, "after": 0.98}}),
		out("the store is away for 4 s, 1.5 R", enterprise, 1.5, askLost, busy),
		out("the store is away for 4 s, 50 R", enterprise, 50, askLost, busy),
		out("the store is away for 4 s, free, 10 R", free, 10, askLost, few),
		{Name: "the store is away for the first 2 s, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.outage(w.regions[0], 0, 2*time.Second, refused)
			w.phased(0.9, k, end, phases[1:], 2*time.Second)
		}, Want: Want{ClassOf: map[string]float64{"during": 0.99, "after": 0.999}}},
		{Name: "away and back every 300 ms, 1.5 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			for t := time.Second; t < end/2; t += 300 * ms {
				w.outage(w.regions[0], t, t+150*ms, askLost)
			}
			w.phased(1.5, k, end, phases, time.Second, end/2+300*ms)
		}, Want: busy},
		{Name: "away for 4 s, a closed rule beside it", Limit: enterprise, For: 12 * time.Second, Load: func(w *World, k *Key, end time.Duration) {
			login := w.NewKey("acme", "login", enterprise, closed)
			w.outage(w.regions[0], end/3, 2*end/3, askLost)
			w.Poisson(k.rate(0.9), 0, end, func() { w.Arrive(w.rng.IntN(50), phases[int(3*w.now/end)], Part{k, 1}, Part{login, 1}) })
		}, Want: Want{ClassOf: map[string]float64{"before": 0.999, "after": 0.999}}, Check: func(_ *World, k *Key) []string {
			if got, most := k.whole.between(4*time.Second, 8*time.Second), k.whole.outTop; got > most {
				return []string{fmt.Sprintf("%d requests passed the closed rule in the outage, want no more than were on lease, %d", got, most)}
			}
			return nil
		}},
		{Name: "the store restarts empty, 1.5 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.at(end/2, w.regions[0].restart)
			w.phased(1.5, k, end, []string{"before", "after"}, end/2)
		}, Want: Want{Class: map[string]float64{"before": 0.99, "after": 0.99}}, Check: func(_ *World, k *Key) []string {
			return overAtMost(k.whole, k.Limit().Burst+k.whole.outTop)
		}},
		{Name: "the store forgets every second, 3 R on one pod", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			for t := time.Second; t < end; t += time.Second {
				w.at(t, w.regions[0].restart)
			}
			steady(3, upTo(1))(w, k, end)
		}, Want: Want{OfBound: 0.99}, Check: func(_ *World, k *Key) []string {
			return overAtMost(k.whole, 0) // the pod's cap needs no store
		}},
		{Name: "1 % of the calls fail, 0.9 R", Limit: enterprise, Load: lostReplies(0.01, 0.9), Want: Want{OfOffered: 0.999}},
		{Name: "10 % of the calls fail, 1.5 R", Limit: enterprise, Load: lostReplies(0.1, 1.5), Want: Want{OfEntitled: 0.9}},
		{Name: "10 % of the calls fail, bursts", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.flaky(w.regions[0], 0.1)
			w.OnOff(k.rate(20), 50*ms, 1950*ms, 0, end, w.on(all, "all", k, 1))
		}, Want: Want{OfEntitled: 0.9}},
		{Name: "half the pods drain, the store is away, 0.9 R", Limit: enterprise, Load: func(w *World, k *Key, end time.Duration) {
			w.outage(w.regions[0], end/2-ms, end/2+100*ms, askLost)
			replaceHalf(0.9, "drained")(w, k, end)
		}, Want: Want{OfOffered: 0.995}},
	}
}
