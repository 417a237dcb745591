package loadgen

import (
	"math/rand/v2"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// arrivals is a plan: each call returns the next intended send time, counted
// from the start of the run. It never ends and knows nothing of replies.
type arrivals func() time.Duration

// constantArrivals sends the n-th request at n/rate. The quotient is taken anew
// for each, so that no rounding adds up over an hour.
func constantArrivals(rate limit.Rate) arrivals {
	n := 0.0
	return func() time.Duration {
		due := n / float64(rate) * float64(time.Second)
		n++
		return time.Duration(due)
	}
}

// poissonArrivals has independent, exponentially distributed gaps of mean
// 1/rate: what many callers that do not know of each other amount to.
func poissonArrivals(rate limit.Rate, random *rand.Rand) arrivals {
	due := 0.0
	return func() time.Duration {
		due += random.ExpFloat64() / float64(rate) * float64(time.Second)
		return time.Duration(due)
	}
}

func newArrivals(cfg *Config, rate limit.Rate, random *rand.Rand) arrivals {
	if cfg.Arrivals == "poisson" {
		return poissonArrivals(rate, random)
	}
	return constantArrivals(rate)
}
