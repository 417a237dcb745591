package bucket_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
)

// limits draws token bucket limits from 1/day to 1,000,000/s.
func limits(t *rapid.T, name string) limit.Limit {
	exponent := rapid.Float64Range(math.Log(1.0/86400), math.Log(1e6)).Draw(t, name+" log rate")
	return limit.Limit{
		Rate:  limit.Rate(math.Exp(exponent)),
		Burst: rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, 2_000_000)).Draw(t, name+" burst"),
	}
}

func waits(t *rapid.T) time.Duration {
	us := rapid.OneOf(
		rapid.Int64Range(0, 2_000),
		rapid.Int64Range(0, 100_000_000),       // minutes
		rapid.Int64Range(0, 4*365*24*3600*1e6), // years of idleness
	).Draw(t, "wait in µs")
	return time.Duration(us) * time.Microsecond
}

// Over any sequence of costs and waits, what is taken in any window never
// exceeds burst + rate · its length.
func TestNeverMoreThanBurstPlusRefill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t, "limit")
		now := time.Duration(0)
		b := bucket.Full(now, l)
		type taken struct {
			at time.Duration
			n  int64
		}
		var history []taken
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += waits(t)
			n := rapid.Int64Range(0, l.Burst+1).Draw(t, "cost")
			if b.LevelAt(now, l) < float64(n) {
				continue
			}
			b = b.Take(now, l, n)
			history = append(history, taken{now, n})
		}
		for i := range history {
			var sum int64
			for _, h := range history[i:] {
				sum += h.n
				bound := float64(l.Burst) + float64(l.Rate)*(h.at-history[i].at).Seconds()
				if float64(sum) > bound*(1+1e-12)+1e-6 {
					t.Fatalf("%d taken from %v to %v under %v: more than %v", sum, history[i].at, h.at, l, bound)
				}
			}
		}
	})
}

// Whoever waits as long as he is told is admitted, and one microsecond less
// would not have done for rates whose refill a float64 can resolve.
func TestObeyingTheWaitAdmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t, "limit")
		start := waits(t)
		b := bucket.Full(start, l).Take(start, l, rapid.Int64Range(0, l.Burst).Draw(t, "spent"))
		now := start + waits(t) - waits(t)/2
		n := rapid.Int64Range(1, l.Burst).Draw(t, "cost")
		wait := b.Wait(now, l, float64(n))
		if level := b.LevelAt(now, l); (wait == 0) != (level >= float64(n)) {
			t.Fatalf("level %v, cost %d, wait %v", level, n, wait)
		}
		b, _ = b.Mend(now)
		if level := b.LevelAt(now+wait, l); level < float64(n) {
			t.Fatalf("after %v the level is %v, want %d", wait, level, n)
		}
		if early := wait - 2*time.Microsecond; early > 0 && l.Rate > 1 && l.Burst < 1000 {
			if level := b.LevelAt(now+early, l); level >= float64(n) {
				t.Fatalf("told to wait %v, but %v would do: level %v", wait, early, level)
			}
		}
	})
}

// An edit of rate, burst or share makes no token: the level right after it is
// the level before, clamped to the new burst.
func TestEditsCarryTokensOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(0)
		l := limits(t, "limit")
		b := bucket.Full(now, l)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += waits(t)
			b = b.Take(now, l, rapid.Int64Range(0, bucket.Whole(b.LevelAt(now, l))).Draw(t, "cost"))
			before := b.LevelAt(now, l)
			edited := limits(t, "edit")
			if rapid.Bool().Draw(t, "share only") {
				edited = limit.Share(rapid.Int32Range(100_000, 1_000_000).Draw(t, "share")).Of(l, 1)
			}
			if after, want := b.LevelAt(now, edited), min(before, float64(edited.Burst)); after != want {
				t.Fatalf("%v edited to %v: level %v became %v, want %v", l, edited, before, after, want)
			}
			l = edited
		}
	})
}

// A rollback restores service at once: an empty bucket whose rate was cut to
// one a minute and rolled back to 10/s has a token within 100 ms.
func TestRollbackRestoresServiceAtOnce(t *testing.T) {
	good := limit.Limit{Rate: 10, Burst: 20}
	bad := limit.Limit{Rate: 1.0 / 60, Burst: 20}
	b := bucket.Full(0, good).Take(0, good, 20)
	now := time.Second
	b = b.Take(now, bad, 0) // written under the bad rule
	if wait := b.Wait(now, good, 1); wait > 100*time.Millisecond {
		t.Errorf("after the rollback the next token is %v away, want at most 100 ms", wait)
	}
	// The other way around, the edit that GCRA gets wrong by 1,980 tokens.
	fast, slow := limit.Limit{Rate: 1000, Burst: 2000}, limit.Limit{Rate: 10, Burst: 2000}
	b = bucket.Full(0, fast).Take(0, fast, 2000)
	if level := b.LevelAt(0, slow); level != 0 {
		t.Errorf("a drained bucket edited from %v to %v holds %v, want 0", fast, slow, level)
	}
}

// A clock that steps back makes no token, loses none, and refilling goes on at
// once, from an empty bucket too.
func TestClockStepsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits(t, "limit")
		now := 48 * time.Hour
		b := bucket.Full(now, l)
		b = b.Take(now, l, rapid.Int64Range(0, l.Burst).Draw(t, "spent"))
		before := b.LevelAt(now, l)
		now -= time.Duration(rapid.Int64Range(1, 24*3600*1e6).Draw(t, "back")) * time.Microsecond
		if level := b.LevelAt(now, l); level != before {
			t.Fatalf("level %v became %v by a step back", before, level)
		}
		b, mended := b.Mend(now)
		if !mended {
			t.Fatal("a state in the future was not mended")
		}
		later := now + time.Second
		want := min(before+l.Rate.PerMicrosecond()*1e6, float64(l.Burst))
		if level := b.LevelAt(later, l); math.Abs(level-want) > 1e-9*want {
			t.Fatalf("one second after the step back the level is %v, want %v", level, want)
		}
	})
}

// What is handed back is there again, but never above full, and never twice: a
// state that has not seen the grant does not take it.
func TestGive(t *testing.T) {
	l := limit.Limit{Rate: 1, Burst: 10}
	b := bucket.Full(time.Second, l).Take(time.Second, l, 6)
	if got := b.Give(l, 2, time.Second).LevelAt(time.Second, l); got != 6 {
		t.Errorf("4 left and 2 back make %v, want 6", got)
	}
	if got := b.Give(l, 100, time.Second).LevelAt(time.Second, l); got != 10 {
		t.Errorf("a full bucket holds %v, want 10", got)
	}
	if got := b.Give(l, 2, 2*time.Second); got != b {
		t.Errorf("a state from 1s took back a grant from 2s: %+v", got)
	}
}

// What is handed back late, under the limit before an edit, refills nothing at
// the old rate.
func TestLateGiveRefillsNothing(t *testing.T) {
	fast, slow := limit.Limit{Rate: 1000, Burst: 2000}, limit.Limit{Rate: 1, Burst: 2000}
	b := bucket.Full(0, fast).Take(0, fast, 2000).Give(fast, 10, 0)
	if got := b.LevelAt(time.Second, slow); got != 11 {
		t.Errorf("a second after the edit, 10 handed back late make %v, want 11", got)
	}
}

// Cost 0 is always there, cost = burst is there when full, and a level below a
// whole token is no token.
func TestEdgesOfTheLevel(t *testing.T) {
	l := limit.Limit{Rate: 10, Burst: 5}
	empty := bucket.Full(0, l).Take(0, l, 5)
	if wait := empty.Wait(0, l, 0); wait != 0 {
		t.Errorf("cost 0 waits %v", wait)
	}
	if wait := bucket.Full(0, l).Wait(0, l, 5); wait != 0 {
		t.Errorf("cost = burst waits %v at a full bucket", wait)
	}
	if wait := empty.Wait(0, l, 6); wait < 99*365*24*time.Hour {
		t.Errorf("what no bucket of 5 ever holds comes after %v", wait)
	}
	if got := bucket.Whole(empty.LevelAt(99*time.Millisecond, l)); got != 0 {
		t.Errorf("%d whole tokens after 99 ms at 10/s, want 0", got)
	}
	if got := bucket.Whole(-0.5); got != 0 {
		t.Errorf("Whole(-0.5) = %d", got)
	}
}

// A window counts what came since its UTC-aligned start, keeps counting through
// a step back, and starts anew at its end.
func TestWindow(t *testing.T) {
	const day = 24 * time.Hour
	noon := 36 * time.Hour // of the epoch's second day
	w := bucket.Window{}.Take(noon, day, 3)
	if w.Start != day || w.CountAt(noon, day) != 3 {
		t.Fatalf("%+v, want 3 since %v", w, day)
	}
	if got := w.CountAt(2*day-time.Microsecond, day); got != 3 {
		t.Errorf("at the last microsecond it counts %d, want 3", got)
	}
	if got := w.CountAt(2*day, day); got != 0 {
		t.Errorf("in the next window it counts %d, want 0", got)
	}
	back, mended := w.Mend(12*time.Hour, day)
	if !mended || back.CountAt(12*time.Hour, day) != 3 || back.Start != 0 {
		t.Errorf("a step back into the window before made %+v, want 3 since 0", back)
	}
	if got := w.Give(noon, day, 2, noon).CountAt(noon, day); got != 1 {
		t.Errorf("3 less 2 handed back is %d", got)
	}
	if got := w.Give(noon, day, 2, 12*time.Hour); got != w {
		t.Errorf("yesterday's count was handed back to today: %+v", got)
	}
	if got := w.CountAt(noon, 12*time.Hour); got != 0 {
		t.Errorf("a window shortened past its count shows %d", got)
	}
	if got := w.Take(noon, 12*time.Hour, 2).CountAt(noon, 7*day); got != 2 {
		t.Errorf("a lengthened window forgot its count: %d, want 2", got)
	}
	if got := bucket.Rest(noon, day); got != 12*time.Hour {
		t.Errorf("the rest of the day at noon is %v", got)
	}
	if got := bucket.WindowStart(-time.Second, time.Minute); got != -time.Minute {
		t.Errorf("the minute before the epoch begins at %v", got)
	}
}

// A log holds at most its size within any window, and admits whoever waits as
// long as he is told.
func TestLogNeverHoldsMoreThanItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = time.Minute
		size := rapid.Int64Range(1, 20).Draw(t, "size")
		var g bucket.Log
		now := time.Duration(0)
		for member := range uint64(rapid.IntRange(1, 60).Draw(t, "attempts")) {
			now += time.Duration(rapid.Int64Range(-2e6, 30e6).Draw(t, "step")) * time.Microsecond
			g = g.Mend(now).Live(now, window)
			n := rapid.Int64Range(1, size).Draw(t, "count")
			wait := g.Wait(now, window, n, size)
			if (wait == 0) != (g.Count()+n <= size) {
				t.Fatalf("%d of %d counted, %d more, wait %v", g.Count(), size, n, wait)
			}
			if rapid.Bool().Draw(t, "obey") {
				now += wait
				if g = g.Live(now, window); g.Count()+n > size {
					t.Fatalf("waited %v, but %d of %d are counted", wait, g.Count(), size)
				}
			}
			if g.Count()+n <= size {
				g = g.Take(now, n, member)
			}
			if g.Count() > size {
				t.Fatalf("%d in a log of %d", g.Count(), size)
			}
		}
	})
}

// Handing an attempt back removes that one and no other, once.
func TestLogGive(t *testing.T) {
	g := bucket.Log(nil).Take(1, 1, 7).Take(2, 3, 8)
	if g = g.Give(7).Give(7).Give(99); len(g) != 1 || g[0].Member != 8 || g.Count() != 3 {
		t.Errorf("after handing 7 back: %+v", g)
	}
	if rest := g.Rest(2, time.Minute); rest != time.Minute {
		t.Errorf("rest %v, want 1m", rest)
	}
}
