package limit_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
)

func subject(t *testing.T, domain string, kind limit.Kind, id string) limit.Subject {
	t.Helper()
	s, err := limit.NewSubject(domain, kind, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Subjects are equal if and only if all their parts are: nothing is joined, and
// a long id's hash is not the id that has the same bytes.
func TestSubjectsThatLookAlikeDiffer(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	all := []limit.Subject{
		subject(t, "a", limit.Account, "b_c"), subject(t, "a_b", limit.Account, "c"), subject(t, "a", limit.User, "b_c"),
		subject(t, "a", limit.User, "\xff"), subject(t, "a", limit.User, "\ufffd"), subject(t, "a", limit.User, "{}\x00 "),
		subject(t, "a", limit.User, long), subject(t, "a", limit.User, long[1:]), subject(t, "a", limit.User, subject(t, "a", limit.User, long).ID()),
	}
	for i, a := range all {
		for j, b := range all {
			if (a == b) != (i == j) {
				t.Errorf("%d and %d: equal is %t", i, j, a == b)
			}
		}
		if c := a.Clone(); c != a || c.Hash() != a.Hash() {
			t.Errorf("a clone of %v differs", a)
		}
	}
	if s := subject(t, "a", limit.User, long); len(s.ID()) != 32 || !s.Hashed() {
		t.Errorf("an id of 1 MiB is kept as %d bytes, want 32", len(s.ID()))
	}
}

// A subject that cannot be is refused by the name of what is wrong.
func TestInvalidSubjects(t *testing.T) {
	for _, c := range []struct {
		domain string
		kind   limit.Kind
		id     string
		want   string
	}{
		{"", limit.IP, "x", "domain is empty"},
		{"Public", limit.IP, "x", `domain "Public": want a-z, 0-9, '-', '_' and '.', beginning with a letter or digit`},
		{"a/b", limit.IP, "x", `domain "a/b": want a-z, 0-9, '-', '_' and '.', beginning with a letter or digit`},
		{strings.Repeat("d", 65), limit.IP, "x", `domain "` + strings.Repeat("d", 32) + `"… has 65 bytes: at most 64 are allowed`},
		{"d", 0, "x", "subject kind 0: want ip, user or account"},
		{"d", limit.User, "", "subject id of a user is empty"},
	} {
		if _, err := limit.NewSubject(c.domain, c.kind, c.id); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// A rate is read as it is written, and written as it is read.
func TestParseRate(t *testing.T) {
	for text, want := range map[string]limit.Rate{
		"10/s": 10, "5/m": 5.0 / 60, "100/hour": 100.0 / 3600, "1/d": 1.0 / 86400, "0.5/min": 0.5 / 60, " 1000000 / s ": 1e6, "1e3/sec": 1000,
	} {
		got, err := limit.ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, float64(got), err, float64(want))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := limit.Rate(rapid.IntRange(1, 1e6).Draw(t, "n")) / limit.Rate(rapid.SampledFrom([]float64{1, 60, 3600, 86400}).Draw(t, "unit"))
		if got, err := limit.ParseRate(r.String()); err != nil || got != r {
			t.Fatalf("%v is written %s and read %v (%v)", float64(r), r, float64(got), err)
		}
	})
}

// A rate that a bucket cannot count in is refused with its value and the range.
func TestRatesOutOfRange(t *testing.T) {
	const outOfRange = " tokens/s is out of range: want 1 a year to 10000000/s"
	for text, want := range map[string]string{
		"10":      `rate "10": want a number and a unit, as in 10/s, 5/m, 100/h or 1/d`,
		"x/s":     `rate "x/s": "x" is no decimal number`,
		"10/w":    `rate "10/w": unit "w" is none of s, m, h, d`,
		"0/s":     `rate "0/s": rate of 0` + outOfRange,
		"-1/s":    `rate "-1/s": rate of -1` + outOfRange,
		"NaN/s":   `rate "NaN/s": rate of NaN` + outOfRange,
		"Inf/s":   `rate "Inf/s": rate of +Inf` + outOfRange,
		"1e308/s": `rate "1e308/s": rate of 1e+308` + outOfRange,
		"1e999/s": `rate "1e999/s": "1e999" is no decimal number`,
		"0.001/d": `rate "0.001/d": rate of 1.1574074074074074e-08` + outOfRange,
	} {
		if _, err := limit.ParseRate(text); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// Shares of one bucket add up to no more than the bucket, but for the floor
// that keeps the largest request possible; windows are not split.
func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limit.Limit{Rate: limit.Rate(rapid.Float64Range(0.01, 1e6).Draw(t, "rate")), Burst: rapid.Int64Range(30, limit.BurstMax).Draw(t, "burst")}
		a := limit.Share(rapid.Int32Range(100_000, 900_000).Draw(t, "share"))
		x, y := a.Of(l, 1), (limit.WholeShare-a).Of(l, 1)
		if x.Burst+y.Burst > l.Burst || float64(x.Rate+y.Rate) > float64(l.Rate)*(1+1e-12) {
			t.Fatalf("%v and %v of %v", x, y, l)
		}
	})
	small := limit.Limit{Rate: 10, Burst: 20}
	if got := limit.Share(100_000).Of(small, 10); got != (limit.Limit{Rate: 1, Burst: 10}) {
		t.Errorf("10 %% of %v with a largest cost of 10 is %v", small, got)
	}
	window := limit.Limit{Count: 10_000, Window: 24 * time.Hour}
	if got := limit.Share(100_000).Of(window, 1); got != window {
		t.Errorf("a window was split: %v", got)
	}
}

// What a request takes from a rule is its cost, or 1 where requests are
// counted, and nothing if it costs nothing.
func TestCharge(t *testing.T) {
	for _, c := range []struct {
		algorithm  limit.Algorithm
		counts     limit.Counts
		cost, want int64
	}{
		{limit.TokenBucket, limit.CountRequests, 10, 10}, {limit.TokenBucket, limit.CountRequests, 0, 0},
		{limit.FixedWindow, limit.CountRequests, 10, 1}, {limit.FixedWindow, limit.CountCost, 10, 10},
		{limit.SlidingLog, limit.CountRequests, 10, 1}, {limit.SlidingLog, limit.CountRequests, 0, 0},
	} {
		r := limit.Rule{Algorithm: c.algorithm, Counts: c.counts}
		if got := r.Charge(c.cost); got != c.want {
			t.Errorf("%s counting %s: cost %d charges %d, want %d", c.algorithm, c.counts, c.cost, got, c.want)
		}
	}
}

// The time to retry after is the longest of those that refused, and there is
// none where waiting does not help.
func TestRetryAfter(t *testing.T) {
	enforced, shadow := &limit.Rule{Mode: limit.Enforce}, &limit.Rule{Mode: limit.Shadow}
	for _, c := range []struct {
		name     string
		outcomes []limit.Outcome
		want     time.Duration
		ok       bool
	}{
		{"allowed", []limit.Outcome{{Rule: enforced, Retry: time.Hour}}, 0, false},
		{"the longest", []limit.Outcome{{Rule: enforced, Short: true, Retry: 1}, {Rule: enforced, Short: true, Retry: 3}, {Rule: enforced, Short: true, Retry: 2}}, 3, true},
		{"shadow", []limit.Outcome{{Rule: enforced, Short: true, Retry: 1}, {Rule: shadow, Short: true, Never: true, Retry: 9}}, 1, true},
		{"never", []limit.Outcome{{Rule: enforced, Short: true, Retry: 1}, {Rule: enforced, Short: true, Never: true}}, 0, false},
		{"banned", []limit.Outcome{{Rule: enforced, Short: true, Banned: true}}, 0, false},
	} {
		d := limit.Decision{Outcomes: c.outcomes}
		if got, ok := d.RetryAfter(); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %t, want %v, %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

// Rules of one domain have tags of their own, and a changed algorithm another.
func TestTags(t *testing.T) {
	seen := map[uint32]string{}
	for _, id := range []string{"a", "b", "ab", "free-global", "free-daily"} {
		for _, a := range []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingLog} {
			tag := limit.TagOf("public-api", id, a)
			if other, ok := seen[tag]; ok {
				t.Errorf("%s %s has the tag of %s", id, a, other)
			}
			seen[tag] = id + " " + a.String()
		}
	}
	if limit.TagOf("a", "b:c", limit.TokenBucket) == limit.TagOf("a:b", "c", limit.TokenBucket) {
		t.Error("domain and rule are joined without their lengths")
	}
}
