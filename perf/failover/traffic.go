package failover

import (
	"fmt"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/rediscluster"
)

const domain = "failover"

// Traffic is one kind of requests: what they cost and under which rule.
type Traffic struct {
	Name     string
	Limit    limit.Limit
	Cost     int64
	Rate     float64 // requests a second, over all pods
	FailMode limit.FailMode
}

// Kinds is the load of each shard. Paid, free and bulk calls are offered at twice
// what their limit refills or more, logins below it.
var Kinds = []Traffic{
	{Name: "paid", Limit: limit.Limit{Rate: 100, Burst: 200}, Cost: 1, Rate: 200, FailMode: limit.FailOpen},
	{Name: "free", Limit: limit.Limit{Rate: 10, Burst: 20}, Cost: 1, Rate: 30, FailMode: limit.FailOpen},
	{Name: "bulk", Limit: limit.Limit{Rate: 100, Burst: 200}, Cost: 10, Rate: 20, FailMode: limit.FailOpen},
	{Name: "login", Limit: limit.Limit{Rate: 50, Burst: 100}, Cost: 1, Rate: 20, FailMode: limit.FailClosed},
}

// Stream is the requests of one kind of one subject.
type Stream struct {
	Traffic

	Shard   int // the number of the primary that serves the subject at the start
	subject limit.Subject
	rule    *limit.Rule
}

// Bound is the most tokens that an outage of so many seconds may admit: the
// fallback's two limits, and for each pod one request, for a fallback bucket is
// never smaller.
func (s *Stream) Bound(seconds float64, pods int) int64 {
	return int64(2*(float64(s.Limit.Burst)+float64(s.Limit.Rate)*seconds)) + int64(pods)*s.Cost
}

// streams makes one stream of each kind for each shard. shardOf says which shard
// serves a key.
func streams(shards int, scale float64, shardOf func(key string) int) ([]*Stream, error) {
	var all []*Stream
	for _, kind := range Kinds {
		kind.Rate *= scale
		kind.Limit.Rate *= limit.Rate(scale)
		kind.Limit.Burst = int64(float64(kind.Limit.Burst) * scale)
		rule := ruleOf(kind, 1)
		missing := make(map[int]bool, shards)
		for i := range shards {
			missing[i] = true
		}
		for i := 0; len(missing) > 0; i++ {
			subject, err := limit.NewSubject(domain, limit.Account, fmt.Sprintf("%s-%d", kind.Name, i))
			if err != nil {
				return nil, err
			}
			if shard := shardOf(rediscluster.Key(subject)); missing[shard] {
				delete(missing, shard)
				all = append(all, &Stream{Traffic: kind, Shard: shard, subject: subject, rule: rule})
			}
		}
	}
	return all, nil
}

func ruleOf(kind Traffic, version int64) *limit.Rule {
	return &limit.Rule{
		Domain: domain, ID: kind.Name, Version: version, Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: kind.Limit,
		Mode: limit.Enforce, FailMode: kind.FailMode, Counts: limit.CountRequests, Largest: kind.Cost,
		Tag: limit.TagOf(domain, kind.Name, limit.TokenBucket),
	}
}
