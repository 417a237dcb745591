package rediscluster

import (
	"context"
	"fmt"
	"strconv"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/members"
)

// heartbeat marks a pod alive on the store's clock, forgets those that are not,
// and returns how many are. KEYS: the region's set. ARGV: the pod's id, the life
// of a heartbeat in ms, 1 to join or 0 to leave.
const heartbeat = `local t = redis.call('TIME')
local now = t[1] * 1000 + (t[2] - t[2] % 1000) / 1000
if ARGV[3] == '1' then redis.call('ZADD', KEYS[1], now, ARGV[1]) else redis.call('ZREM', KEYS[1], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])`

// Roster is the set of a region's live pods in the store, on the store's clock.
type Roster struct {
	store *Store
	key   string
}

// NewRoster makes the roster of a region, whose pods share this store's counters. The
// error says what is wrong with its name.
func NewRoster(s *Store, region string) (*Roster, error) {
	if err := limit.ValidateName("region", region); err != nil {
		return nil, err
	}
	return &Roster{s, "rl:{pods/" + region + "}"}, nil
}

// Beat implements members.Roster.
func (r *Roster) Beat(ctx context.Context, pod string, alive bool) (live int, err error) {
	client := r.store.client.Load()
	if client == nil {
		return 0, classRefused.wrap("all", nil)
	}
	joins := "0"
	if alive {
		joins = "1"
	}
	c := *client
	n, err := c.Do(ctx, c.B().Eval().Script(heartbeat).Numkeys(1).Key(r.key).
		Arg(pod, strconv.FormatInt(members.Life.Milliseconds(), 10), joins).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("%w: heartbeat: %w", store.ErrUnavailable, err)
	}
	return int(n), nil
}
