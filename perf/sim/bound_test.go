package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// A bound tells what is within the limit from what is beyond it by one token.
func TestBoundsTellOneTokenTooMany(t *testing.T) {
	const s = time.Second
	bucket := limit.Limit{Rate: 10, Burst: 20}
	window := limit.Limit{Count: 5, Window: 10 * s}
	for _, c := range []struct {
		name      string
		algorithm limit.Algorithm
		limit     limit.Limit
		do        func(b bound)
		over      float64
	}{
		{"the burst", limit.TokenBucket, bucket, func(b bound) { b.charge(0, 20, 0) }, 0},
		{"one more", limit.TokenBucket, bucket, func(b bound) { b.charge(0, 21, 0) }, 1},
		{"what has refilled", limit.TokenBucket, bucket, func(b bound) { b.charge(0, 20, 0); b.charge(s, 10, 0) }, 0},
		{"one more than has refilled", limit.TokenBucket, bucket, func(b bound) { b.charge(0, 20, 0); b.charge(s, 11, 0) }, 1},
		{"what was handed back", limit.TokenBucket, bucket, func(b bound) { b.charge(0, 20, 0); b.giveBack(0, 5, 0); b.charge(0, 6, 0) }, 1},
		{"handed back above full", limit.TokenBucket, bucket, func(b bound) { b.giveBack(0, 5, 0); b.charge(0, 21, 0) }, 1},
		{"after a cut", limit.TokenBucket, bucket, func(b bound) { b.limited(s, limit.Limit{Rate: 1, Burst: 2}); b.charge(s, 3, 0) }, 1},
		{"a raise makes no token", limit.TokenBucket, bucket, func(b bound) { b.limited(0, limit.Limit{Rate: 10, Burst: 99}); b.charge(0, 21, 0) }, 1},
		{"the clock steps back", limit.TokenBucket, bucket, func(b bound) { b.charge(9*s, 20, 0); b.stepped(9*s, s); b.charge(2*s, 11, 0) }, 1},
		{"a window", limit.FixedWindow, window, func(b bound) { b.charge(9*s, 5, 0); b.charge(10*s, 5, 0) }, 0},
		{"one more in a window", limit.FixedWindow, window, func(b bound) { b.charge(11*s, 5, 0); b.charge(19*s, 1, 0) }, 1},
		{"a log", limit.SlidingLog, window, func(b bound) { b.charge(9*s, 5, 1); b.charge(19*s, 5, 2) }, 0},
		{"one more in a log", limit.SlidingLog, window, func(b bound) { b.charge(9*s, 5, 1); b.charge(18*s, 1, 2) }, 1},
		{"an attempt that was taken back", limit.SlidingLog, window, func(b bound) { b.charge(9*s, 5, 1); b.giveBack(9*s, 5, 1); b.charge(18*s, 5, 2) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBound(c.algorithm, c.limit, 0, 0)
			c.do(b)
			if over := max(0, b.excess()); over < c.over-0.001 || over > c.over+0.001 {
				t.Errorf("%.3f over the limit, want %.0f", over, c.over)
			}
		})
	}
}

// A meter finds a token that was made, one that was forgotten, and an admission
// beyond what was on lease.
func TestMeterFindsWhatDoesNotHold(t *testing.T) {
	const now = epoch + time.Second
	for _, c := range []struct {
		name, fault string
		do          func(m *meter)
	}{
		{"all is paid", "", func(m *meter) { m.charge(now, 20, 0); m.admit(now, admission{now, 20, 0}) }},
		{"the lease counts from before the window", "", func(m *meter) {
			m.charge(now, 20, 0)
			m.charge(now+2*time.Second, 20, 0)
			m.admit(now+2*time.Second, admission{now, 40, 0})
		}},
		{"charged too much", "above the limit", func(m *meter) { m.charge(now, 21, 0); m.admit(now, admission{now, 21, 0}) }},
		{"never charged", "tokens are out", func(m *meter) { m.admit(now, admission{now, 1, 0}) }},
		{"never handed back", "tokens are out", func(m *meter) { m.charge(now, 1, 0) }},
		{"more than lease and bound", "on lease at the begin", func(m *meter) {
			m.charge(now, 20, 0)
			m.admit(now, admission{now, 20, 0})
			m.admit(now, admission{now, 20, 0})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := NewWorld(Config{Pods: 1})
			if err != nil {
				t.Fatal(err)
			}
			k := w.NewKey("acme", "account", limit.Limit{Rate: 10, Burst: 20})
			c.do(k.whole)
			err = k.whole.verify(true)
			if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("verify says %v, want %q", err, c.fault)
			}
		})
	}
}

// A run that leaves a request undecided, lets one wait too long, admits one past a
// closed rule or counts otherwise than its pods does not hold.
func TestWorldFindsWhatDoesNotHold(t *testing.T) {
	for fault, spoil := range map[string]func(*World){
		"undecided":         func(w *World) { w.asked++ },
		"more than 2 round": func(w *World) { w.waits.add(801*time.Microsecond, 1, w.cfg.RTT) },
		"closed rule":       func(w *World) { w.unpaid++ },
		"subject":           func(w *World) { w.NewKey("", "account", free) },
		"the pods count":    func(w *World) { m := w.NewKey("acme", "account", free).whole; m.charged, m.admitted = 1, 1 },
	} {
		w, err := NewWorld(Config{Pods: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.verify(); err != nil {
			t.Fatal(err)
		}
		spoil(w)
		if err := w.verify(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("verify says %v, want %q", err, fault)
		}
	}
}
