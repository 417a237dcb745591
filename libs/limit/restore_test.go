package limit_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// A subject that was sent elsewhere and restored is the same subject.
func TestRestoredSubjectIsEqual(t *testing.T) {
	for _, id := range []string{"acct_7Q2", strings.Repeat("x", 64), strings.Repeat("x", 65), "\x00{}", strings.Repeat("y", 32)} {
		s, err := limit.NewSubject("public-api", limit.Account, id)
		if err != nil {
			t.Fatal(err)
		}
		restored, err := limit.RestoreSubject(s.Domain(), s.Kind(), s.ID(), s.Hashed())
		if err != nil || restored != s || restored.Hash() != s.Hash() {
			t.Errorf("%q: got %v, %v", id, restored, err)
		}
		other, err := limit.RestoreSubject(s.Domain(), s.Kind(), s.ID(), !s.Hashed())
		if err == nil && other == s {
			t.Errorf("%q is the same hashed and not", id)
		}
	}
	for what, err := range map[string]error{
		"an id that NewSubject would have hashed": second(limit.RestoreSubject("d", limit.IP, strings.Repeat("x", 65), false)),
		"a hash of 31 bytes":                      second(limit.RestoreSubject("d", limit.IP, strings.Repeat("x", 31), true)),
		"no domain":                               second(limit.RestoreSubject("", limit.IP, "x", false)),
		"no kind":                                 second(limit.RestoreSubject("d", 0, "x", false)),
	} {
		if err == nil {
			t.Errorf("%s is a subject", what)
		}
	}
}

func second(_ limit.Subject, err error) error { return err }

// What no rule can have as its limit is refused with its field.
func TestLimitOutOfBoundsIsNamed(t *testing.T) {
	bucket, window := limit.Limit{Rate: 10, Burst: 20}, limit.Limit{Count: 5, Window: time.Minute}
	for _, c := range []struct {
		algorithm limit.Algorithm
		limit     limit.Limit
		fault     string // "" for none
	}{
		{limit.TokenBucket, bucket, ""}, {limit.FixedWindow, window, ""}, {limit.SlidingLog, window, ""},
		{limit.TokenBucket, window, "no count or window"}, {limit.FixedWindow, bucket, "no rate or burst"},
		{limit.TokenBucket, limit.Limit{Rate: limit.Rate(math.NaN()), Burst: 1}, "rate"}, {limit.TokenBucket, limit.Limit{Rate: 1}, "burst is 0"},
		{limit.TokenBucket, limit.Limit{Rate: 1, Burst: limit.BurstMax + 1}, "burst is 1000000001"},
		{limit.FixedWindow, limit.Limit{Count: 1, Window: time.Millisecond}, "window is 1ms"},
		{limit.FixedWindow, limit.Limit{Count: 1, Window: time.Minute + 1}, "whole microseconds"},
		{limit.FixedWindow, limit.Limit{Window: time.Minute}, "count is 0"}, {limit.SlidingLog, limit.Limit{Count: 1001, Window: time.Minute}, "want 1 to 1000"},
	} {
		err := c.limit.Validate(c.algorithm)
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%v of a %v: got %v, want %q", c.limit, c.algorithm, err, c.fault)
		}
	}
}
