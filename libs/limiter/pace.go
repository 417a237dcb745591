package limiter

import (
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// The constants of pacing: with them a key costs the store at most pods ÷ 50 ms
// calls a second, whatever its rate and the flood.
const (
	holdMin    = 50 * time.Millisecond
	holdMax    = 250 * time.Millisecond
	holdTokens = 10               // a slow key is left alone for so many tokens' refill,
	holdPod    = time.Millisecond // a large fleet for so long a pod
)

// hold is a rule that the store found short: while other pods compete for it,
// it is not asked again at once for as much as it lacked.
type hold struct {
	until time.Duration // pod time
	need  int64         // the hold is for requests that lack this much or more
}

// rest is how much longer a request that lacks so much is held; 0: it is not.
func (h *hold) rest(now time.Duration, lacks int64) time.Duration {
	if lacks < h.need {
		return 0
	}
	return max(0, h.until-now)
}

// pause is how long a rule found short is left alone, in whole milliseconds:
// random is within [0, 1).
func pause(l limit.Limit, pods int, random float64) time.Duration {
	slow := time.Duration(float64(l.Span()) / float64(l.Size()) * holdTokens)
	pause := min(max(slow, time.Duration(pods)*holdPod, holdMin), holdMax)
	return time.Duration(float64(pause)*(0.5+random)).Truncate(time.Millisecond) + time.Millisecond
}
