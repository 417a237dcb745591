package loadgen

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// Constant arrivals neither drift nor crowd: after an hour the next request is
// due at the hour, to the nanosecond's rounding.
func TestConstantArrivalsDoNotDrift(t *testing.T) {
	for _, rate := range []limit.Rate{1, 3, 7, 1000.0 / 3} {
		next := constantArrivals(rate)
		n := int(math.Round(3600 * float64(rate)))
		for range n {
			next()
		}
		if due := next(); due.Round(time.Microsecond) != time.Hour {
			t.Errorf("rate %v: request %d is due at %v, want 1h", rate, n, due)
		}
	}
}

// Poisson arrivals have the rate asked for, and the spread of a Poisson process:
// the variance of the gaps is the square of their mean.
func TestPoissonArrivalsHaveMeanAndSpread(t *testing.T) {
	const n, rate = 100_000, 200
	next := poissonArrivals(rate, seeded(1))
	var last time.Duration
	sum, squares := 0.0, 0.0
	for range n {
		due := next()
		gap := (due - last).Seconds() * rate
		last, sum, squares = due, sum+gap, squares+gap*gap
	}
	mean := sum / n
	variance := squares/n - mean*mean
	if math.Abs(mean-1) > 0.02 || math.Abs(variance-1) > 0.05 {
		t.Errorf("gaps have mean %.3f and variance %.3f of 1/rate, want 1 and 1", mean, variance)
	}
}

// The same seed sends the same plan, another seed another one.
func TestSeedDecidesThePlan(t *testing.T) {
	cfg := &Config{Keys: 100, Distribution: "zipf", Exponent: 1.5, Arrivals: "poisson"}
	plan := func(seed uint64) (due [50]time.Duration, keys [50]int) {
		arrive, pick := newArrivals(cfg, 10, seeded(seed)), newPick(cfg, seeded(seed))
		for i := range due {
			due[i], keys[i] = arrive(), pick()
		}
		return due, keys
	}
	due1, keys1 := plan(1)
	due2, keys2 := plan(1)
	due3, keys3 := plan(2)
	if due1 != due2 || keys1 != keys2 {
		t.Error("one seed gave two plans")
	}
	if due1 == due3 || keys1 == keys3 {
		t.Error("two seeds gave one plan")
	}
}

// Each distribution gives keys the parts that it promises.
func TestDistributionsGiveTheirShares(t *testing.T) {
	const n, keys = 100_000, 1000
	shares := func(distribution string) (share [keys]float64) {
		pick := newPick(&Config{Keys: keys, Distribution: distribution, HotShare: 0.7, Exponent: 2}, seeded(1))
		for range n {
			share[pick()] += 1.0 / n
		}
		return share
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.01 {
			t.Errorf("%s gets %.4f of the requests, want %.4f", what, got, want)
		}
	}
	hot := shares("hot")
	near("the hot key", hot[0], 0.7)
	near("any other key beside the hot one", hot[1], 0.3/(keys-1))
	uniform := shares("uniform")
	near("a key of a uniform run", uniform[0], 1.0/keys)
	// At exponent 2 the parts are 1/k² of π²/6.
	zipf := shares("zipf")
	near("the first key of zipf", zipf[0], 6/(math.Pi*math.Pi))
	near("the second key of zipf", zipf[1], 6/(math.Pi*math.Pi)/4)
}

// One key is sent as it is; of many, each has a name of its own.
func TestKeysHaveNames(t *testing.T) {
	if got := keyName(&Config{Keys: 1}, "demo-free", 0); got != "demo-free" {
		t.Errorf("the only key is %q, want demo-free", got)
	}
	many := &Config{Keys: 20}
	if a, b := keyName(many, "k", 1), keyName(many, "k", 11); a != "k-1" || b != "k-11" {
		t.Errorf("keys 1 and 11 are %q and %q, want k-1 and k-11", a, b)
	}
}

// A key is over its limit from the first whole token above B + R·t on, with t
// from its first send to its last reply in whatever order replies come. What it
// is due at least counts from its first reply to its last refused send.
func TestBoundRunsFromFirstSendToLastReply(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name   string
		tokens int64
		over   int
	}{{"at the bound", 35, 0}, {"one above", 36, 1}} {
		t.Run(c.name, func(t *testing.T) {
			plan := &planTally{limit: limit.Limit{Rate: 10, Burst: 20}, keys: map[string]*keyTally{}}
			plan.take("k", 600*ms, 1700*ms, limit.Allowed, 5)
			plan.take("k", 200*ms, 1500*ms, limit.Denied, 5)
			plan.take("k", 700*ms, 1000*ms, limit.Unavailable, 5)
			plan.take("k", 1400*ms, 1650*ms, limit.Denied, 5)
			plan.take("k", 1600*ms, 1660*ms, limit.Allowed, c.tokens-5)
			r := plan.report()
			if r.Seconds != 1.5 || r.Bound != 35 || r.Least != 24 {
				t.Errorf("t is %vs, the bound %v, the least %v: want 1.5, 35 and 24", r.Seconds, r.Bound, r.Least)
			}
			if r.Tokens != c.tokens || r.OverLimitKeys != c.over {
				t.Errorf("%d tokens, %d keys over, want %d and %d", r.Tokens, r.OverLimitKeys, c.tokens, c.over)
			}
		})
	}
}
