package envoy

import (
	"errors"
	"fmt"
	"math"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
)

// units are the units of time that a limit is told in, the longest first.
var units = [...]struct {
	unit    pb.RateLimitResponse_RateLimit_Unit
	seconds int64
}{
	{pb.RateLimitResponse_RateLimit_DAY, 86400}, {pb.RateLimitResponse_RateLimit_HOUR, 3600},
	{pb.RateLimitResponse_RateLimit_MINUTE, 60}, {pb.RateLimitResponse_RateLimit_SECOND, 1},
}

// lengths are the units that a request's own limit can have. Months and years are
// of 30 and 365 days, as they are to envoyproxy/ratelimit.
var lengths = map[typev3.RateLimitUnit]float64{
	typev3.RateLimitUnit_SECOND: 1, typev3.RateLimitUnit_MINUTE: 60, typev3.RateLimitUnit_HOUR: 3600,
	typev3.RateLimitUnit_DAY: 86400, typev3.RateLimitUnit_MONTH: 30 * 86400, typev3.RateLimitUnit_YEAR: 365 * 86400,
}

// overrule puts a limit that the request brings in the place of a charge's. A
// limit of 0 refuses everything. A ban stays one.
func overrule(c *limit.Charge, o *ratelimitv3.RateLimitDescriptor_RateLimitOverride) error {
	n, seconds := int64(o.GetRequestsPerUnit()), lengths[o.GetUnit()]
	if seconds == 0 {
		return fmt.Errorf("unit is %s: want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", o.GetUnit())
	}
	if m := o.GetUnitMultiplier(); m != nil {
		seconds *= float64(m.GetValue())
	}
	if seconds == 0 {
		return errors.New("unit_multiplier is 0: want 1 or more")
	}
	if n == 0 {
		c.Banned = true
		return nil
	}
	made := limit.Limit{Rate: limit.Rate(float64(n) / seconds), Burst: n}
	if c.Rule.Algorithm != limit.TokenBucket {
		made = limit.Limit{Count: n, Window: time.Duration(min(seconds, 2*limit.WindowMax.Seconds())) * time.Second}
	}
	if err := made.Validate(c.Rule.Algorithm); err != nil {
		return fmt.Errorf("cannot be one of rule %s: %w", c.Rule.Name(), err)
	}
	c.Limit = made
	return nil
}

// tell says a limit in the words of the protocol, with the numbers of
// RateLimit-Policy: what a bucket or window holds, in the seconds in which it renews
// itself, told in the longest unit of which they are a whole number.
func tell(rule *limit.Rule, l limit.Limit) *pb.RateLimitResponse_RateLimit {
	made := &pb.RateLimitResponse_RateLimit{Name: rule.Name(), RequestsPerUnit: saturated(l.Size())}
	seconds := httplimit.WindowSeconds(l)
	for _, u := range units {
		if seconds%u.seconds != 0 {
			continue
		}
		made.Unit = u.unit
		if multiple := seconds / u.seconds; multiple != 1 {
			made.UnitMultiplier = wrapperspb.UInt32(saturated(multiple))
		}
		break
	}
	return made
}

// saturated is n, which is not negative, or the largest number that the protocol
// can hold.
func saturated(n int64) uint32 { return uint32(min(n, math.MaxUint32)) } //nolint:gosec // bounded
