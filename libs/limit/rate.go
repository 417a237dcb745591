package limit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of tokens per second. It may be a fraction: 1/day is
// 1.157e-5.
type Rate float64

// Bounds of a rate: outside them a bucket's arithmetic in float64 and
// microseconds is not exact enough.
const (
	RateMin Rate = 1.0 / 86400 / 366 // one a year
	RateMax Rate = 1e7               // 10 tokens a microsecond
)

// PerMicrosecond is the rate in the unit of bucket arithmetic.
func (r Rate) PerMicrosecond() float64 { return float64(r) / 1e6 }

// Time is how long n tokens take at this rate, rounded up to a microsecond; 100
// years at most, 0 at least.
func (r Rate) Time(n float64) time.Duration {
	return time.Duration(math.Ceil(min(max(0, n)/r.PerMicrosecond(), float64(spanMax/time.Microsecond)))) * time.Microsecond
}

// String returns the rate per second, minute, hour or day, whichever is the
// first to give a whole number, else per second: "10/s", "5/m", "1/d".
func (r Rate) String() string {
	for _, u := range rateUnits {
		n := float64(r) * u.seconds
		if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) < 1e-9*whole {
			return strconv.FormatFloat(whole, 'f', -1, 64) + "/" + u.name
		}
	}
	return strconv.FormatFloat(float64(r), 'g', -1, 64) + "/s"
}

var rateUnits = []struct {
	name    string
	also    []string
	seconds float64
}{
	{"s", []string{"sec", "second"}, 1},
	{"m", []string{"min", "minute"}, 60},
	{"h", []string{"hour"}, 3600},
	{"d", []string{"day"}, 86400},
}

// ParseRate reads a rate as rule files write it: a decimal number, a slash and
// s, m, h or d (also sec, second, min, minute, hour, day), as in "10/s" and
// "0.5/min". The error names the text and what is allowed; the rate returned
// without one is within [RateMin, RateMax].
func ParseRate(text string) (Rate, error) {
	number, unit, ok := strings.Cut(text, "/")
	if !ok {
		return 0, fmt.Errorf("rate %.40q: want a number and a unit, as in 10/s, 5/m, 100/h or 1/d", text)
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return 0, fmt.Errorf("rate %.40q: %.32q is no decimal number", text, number)
	}
	unit = strings.TrimSpace(unit)
	for _, u := range rateUnits {
		if unit != u.name && !slices.Contains(u.also, unit) {
			continue
		}
		r := Rate(n / u.seconds)
		if err := r.Validate(); err != nil {
			return 0, fmt.Errorf("rate %.40q: %w", text, err)
		}
		return r, nil
	}
	return 0, fmt.Errorf("rate %.40q: unit %.16q is none of s, m, h, d", text, unit)
}

// Validate reports a rate that is not within [RateMin, RateMax], NaN included.
func (r Rate) Validate() error {
	if !(r >= RateMin && r <= RateMax) {
		return fmt.Errorf("rate of %v tokens/s is out of range: want 1 a year to %.0f/s", float64(r), float64(RateMax))
	}
	return nil
}

// Exact is String where that is read back as the same rate, and else the rate per
// second with as many digits as it takes.
func (r Rate) Exact() string {
	text := r.String()
	if read, err := ParseRate(text); err == nil && read == r {
		return text
	}
	return strconv.FormatFloat(float64(r), 'f', -1, 64) + "/s"
}
