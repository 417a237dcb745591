package rediscluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/lanes"
)

// slotCount is how many slots a Redis Cluster has.
const slotCount = 16384

// shard is some slots and what this pod thinks of whoever serves them. It
// stays the same when another node takes the slots over.
type shard struct {
	name     string // its lowest slot; "all" for a standalone server
	owner    string // the id of the node that serves it, for update
	breaker  breaker.Breaker
	lanes    lanes.Lanes[*call]
	inFlight atomic.Int64
	told     atomic.Int64 // when its clock was, in nanoseconds from the store's start
}

// shards knows which shard a slot belongs to. Safe for concurrent use.
type shards struct {
	bySlot  atomic.Pointer[[slotCount]*shard]
	changed func(shard string, from, to breaker.State)
	send    func([]*call)
}

// newShards begins with one shard for all slots, until the topology is known.
func newShards(changed func(shard string, from, to breaker.State), send func([]*call)) *shards {
	s := &shards{changed: changed, send: send}
	var all [slotCount]*shard
	one := s.make("all")
	for i := range all {
		all[i] = one
	}
	s.bySlot.Store(&all)
	return s
}

func (s *shards) make(name string) *shard {
	sh := &shard{name: name, lanes: lanes.New(batchMax, s.send)}
	sh.told.Store(int64(-clockEvery))
	sh.breaker.Random = rand.Float64
	sh.breaker.Changed = func(from, to breaker.State) { s.changed(name, from, to) }
	return sh
}

// of returns the shard of a command's slot; a standalone server has none.
func (s *shards) of(slot uint16) *shard { return s.bySlot.Load()[slot%slotCount] }

// clockEvery is how often a shard's clock is told, at most: for each call, the time
// would be read once more.
const clockEvery = 100 * time.Millisecond

// clockDue reports whether the shard's clock is to be told.
func (sh *shard) clockDue(now time.Duration) bool {
	told := sh.told.Load()
	return now-time.Duration(told) >= clockEvery && sh.told.CompareAndSwap(told, int64(now))
}

// byName returns each shard that has a slot.
func (s *shards) byName() map[string]*shard {
	all := map[string]*shard{}
	for _, sh := range s.bySlot.Load() {
		all[sh.name] = sh
	}
	return all
}

// slotRange is one row of CLUSTER SLOTS.
type slotRange struct {
	first, last int64
	owner       string
}

// update takes a topology over. A shard whose lowest slot is the same keeps its
// breaker, whoever serves it and whatever else: names are few, for metrics. Where
// another node has taken over, an open breaker looks at once. It is called by one
// goroutine at a time.
func (s *shards) update(now time.Duration, ranges []slotRange) {
	slices.SortFunc(ranges, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
	names := map[string]string{} // owner → its lowest slot
	for _, r := range ranges {
		if names[r.owner] == "" {
			names[r.owner] = strconv.FormatInt(r.first, 10)
		}
	}
	old := s.bySlot.Load()
	known := s.byName()
	next := *old // slots that nobody serves stay with whom they were
	for _, r := range ranges {
		name := names[r.owner]
		if known[name] == nil {
			known[name] = s.make(name)
		}
		if sh := known[name]; sh.owner != r.owner {
			sh.owner = r.owner
			sh.breaker.Hurry(now)
		}
		for i := r.first; i <= min(r.last, slotCount-1); i++ {
			next[i] = known[name]
		}
	}
	if next != *old {
		s.bySlot.Store(&next)
	}
}

// How often the slots' owners are asked for, besides what redirections tell the
// client: a new shard begins with a closed breaker.
const (
	topologyEvery   = 5 * time.Second
	topologyHurry   = 250 * time.Millisecond // while a breaker is not closed, for a replica may take over, and after a failure
	topologyTimeout = 500 * time.Millisecond // of one attempt
	topologyAsks    = 4                      // nodes that are asked at once
)

// pace is the time until the topology is to be read again.
func (s *shards) pace() time.Duration {
	for _, sh := range s.byName() {
		if !sh.breaker.Closed() {
			return topologyHurry
		}
	}
	return topologyEvery
}

// refresh asks some nodes for the topology and takes the first answer: one of them
// may hang. Nobody else is interrupted then: a connection that is being made is the
// one that calls wait for. now is read when the answer is there.
func (s *shards) refresh(ctx context.Context, client rueidis.Client, now func() time.Duration) error {
	asking := inTime{context.WithoutCancel(ctx), time.Now().Add(topologyTimeout)}
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	type view struct {
		ranges []slotRange
		err    error
	}
	views := make(chan view, topologyAsks)
	asked := 0
	for _, node := range client.Nodes() { // in random order
		if asked == topologyAsks {
			break
		}
		asked++
		go func() {
			ranges, err := slotRanges(asking, node)
			views <- view{ranges, err}
		}()
	}
	err := errors.New("cluster slots: no node is known")
	for range asked {
		select {
		case v := <-views:
			if v.err == nil {
				s.update(now(), v.ranges)
				return nil
			}
			err = v.err
		case <-ctx.Done():
			return fmt.Errorf("cluster slots: %w", ctx.Err())
		}
	}
	return err
}

// slotRanges asks one node.
func slotRanges(ctx context.Context, node rueidis.Client) ([]slotRange, error) {
	rows, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, fmt.Errorf("cluster slots: %w", err)
	}
	var ranges []slotRange
	for _, row := range rows {
		r, err := rangeOf(row)
		if err != nil {
			return nil, fmt.Errorf("cluster slots: %w", err)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// rangeOf reads a row: the first slot, the last, and the nodes, the owner first.
func rangeOf(row rueidis.RedisMessage) (r slotRange, err error) {
	columns, err := row.ToArray()
	if err != nil || len(columns) < 3 {
		return r, fmt.Errorf("a row of %d columns: %w", len(columns), err)
	}
	if r.first, err = columns[0].AsInt64(); err != nil {
		return r, fmt.Errorf("first slot: %w", err)
	}
	if r.last, err = columns[1].AsInt64(); err != nil {
		return r, fmt.Errorf("last slot: %w", err)
	}
	node, err := columns[2].ToArray()
	if err != nil || len(node) < 3 {
		return r, fmt.Errorf("a node of %d columns: %w", len(node), err)
	}
	if r.owner, err = node[2].ToString(); err != nil {
		return r, fmt.Errorf("node id: %w", err)
	}
	return r, nil
}
