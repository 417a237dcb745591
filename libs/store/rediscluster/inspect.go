package rediscluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/counter"
)

// Inspector reads what the store holds, for people: support that asks why a
// caller is refused, and tests. It charges nothing and changes no key. Safe for
// concurrent use.
type Inspector struct {
	client  rueidis.Client
	timeout time.Duration
}

// inspectTimeout is how long a reading may take: a person waits for it.
const inspectTimeout = 2 * time.Second

// NewInspector connects to the store that cfg names; of its other fields only
// those of the connection count. Unlike New it fails if nothing answers: the
// error then wraps store.ErrUnavailable.
func NewInspector(cfg Config) (*Inspector, error) {
	option, err := cfg.option()
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return &Inspector{client: client, timeout: inspectTimeout}, nil
}

// Close ends the connections.
func (i *Inspector) Close() { i.client.Close() }

// Reading is what the store holds of one subject.
type Reading struct {
	At       time.Duration // of the shard's clock, since store.Epoch
	Key      string        // of the record of buckets and windows
	Bytes    int           // that the record has; 0: there is none
	TTL      time.Duration // of the record
	Counters []Held        // in the order of the entries that were asked for
	Unknown  []uint32      // tags in the record of rules that were not asked for
}

// Held is one counter as it lies in the store.
type Held struct {
	Found     bool            // something is there; if not, the counter is a fresh one: all is left
	Counter   counter.Counter // as it was last written
	Level     float64         // of a bucket, now: tokens, fractions included
	Remaining int64           // whole tokens, or counts, left now
	Reset     time.Duration   // until nothing is used any more
	TTL       time.Duration   // of the key that it lies in; 0 if not Found
}

// Read tells what the subject's counters hold. Of an entry only Rule and Limit
// count. The keys are read one after the other on the shard's primary: what is
// charged meanwhile may show in some of them. An error says that the store could
// not be asked, or that a key holds what no version of this store writes.
func (i *Inspector) Read(ctx context.Context, subject limit.Subject, entries []store.Entry) (Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	r := Reading{Key: Key(subject), Counters: make([]Held, len(entries))}
	var replies []rueidis.RedisResult
	// One connection, so that TIME is asked of whom the keys are on.
	err := i.client.Dedicated(func(c rueidis.DedicatedClient) error {
		commands := []rueidis.Completed{c.B().Get().Key(r.Key).Build(), c.B().Pttl().Key(r.Key).Build()}
		for _, e := range entries {
			if e.Rule.Algorithm == limit.SlidingLog {
				key := LogKey(subject, e.Rule.ID)
				commands = append(commands, c.B().Zrange().Key(key).Min("0").Max("-1").Withscores().Build(), c.B().Pttl().Key(key).Build())
			}
		}
		replies = c.DoMulti(ctx, append(commands, c.B().Time().Build())...)
		return nil
	})
	for _, reply := range replies {
		if failed := reply.Error(); failed != nil && !rueidis.IsRedisNil(failed) {
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w: %w", r.Key, store.ErrUnavailable, err)
	}
	last := len(replies) - 1
	if r.At, err = timeOf(replies[last]); err != nil {
		return r, fmt.Errorf("TIME: %w", err)
	}
	return r, r.fill(replies[:last], entries)
}

// timeOf is the time that a server tells, as its scripts do.
func timeOf(reply rueidis.RedisResult) (time.Duration, error) {
	parts, err := reply.AsIntSlice()
	if err != nil || len(parts) != 2 {
		return 0, fmt.Errorf("%d numbers, want 2: %w", len(parts), err)
	}
	return time.Unix(parts[0], parts[1]*1000).Sub(store.Epoch), nil
}

// fill reads the replies: the record and its life, then each log and its.
func (r *Reading) fill(replies []rueidis.RedisResult, entries []store.Entry) error {
	record, _ := replies[0].ToString() // nil if it is not there
	r.Bytes, r.TTL = len(record), life(replies[1])
	states, err := parseRecord(record)
	if err != nil {
		return fmt.Errorf("%s: %w", r.Key, err)
	}
	replies = replies[2:]
	for i := range entries {
		e, h := &entries[i], &r.Counters[i]
		if e.Rule.Algorithm == limit.SlidingLog {
			if h.Counter.Log, err = parseLog(replies[0]); err != nil {
				return fmt.Errorf("log of rule %s: %w", e.Rule.ID, err)
			}
			h.Found, h.TTL = len(h.Counter.Log) > 0, life(replies[1])
			replies = replies[2:]
		} else if state, ok := states[e.Rule.Tag]; ok {
			h.Found, h.TTL, h.Counter = true, r.TTL, state
			delete(states, e.Rule.Tag)
		}
		h.settle(r.At, e)
	}
	for tag := range states {
		r.Unknown = append(r.Unknown, tag)
	}
	return nil
}

// settle says what is left of a counter now.
func (h *Held) settle(now time.Duration, e *store.Entry) {
	reader := store.Entry{Rule: e.Rule, Limit: e.Limit}
	c := h.Counter
	if !h.Found {
		c = counter.Fresh(now, &reader)
	}
	c.Log = append(bucket.Log(nil), c.Log...) // Prepare mends it in place
	c.Prepare(now, &reader)
	h.Remaining, h.Reset = c.Rest(now, &reader)
	if e.Rule.Algorithm == limit.TokenBucket {
		h.Level = c.Tokens.LevelAt(now, e.Limit)
	}
}

// parseRecord reads a record as check.lua writes it: each rule's two numbers, by
// tag, as a bucket and as a window. An empty one is no record.
func parseRecord(record string) (map[uint32]counter.Counter, error) {
	states := map[uint32]counter.Counter{}
	if record == "" {
		return states, nil
	}
	if len(record)%recordEntry != recordHeader {
		return nil, fmt.Errorf("a record of %d bytes is of no known format", len(record))
	}
	b := []byte(record)
	for at := recordHeader; at < len(b); at += recordEntry {
		tag := binary.LittleEndian.Uint32(b[at:])
		first := math.Float64frombits(binary.LittleEndian.Uint64(b[at+4:]))
		second := time.Duration(math.Float64frombits(binary.LittleEndian.Uint64(b[at+12:]))) * time.Microsecond
		states[tag] = counter.Counter{
			Tokens: bucket.Tokens{Level: first, At: second},
			Window: bucket.Window{Start: second, Count: int64(first)},
		}
	}
	return states, nil
}

// parseLog reads a log's attempts, the oldest first.
func parseLog(reply rueidis.RedisResult) (bucket.Log, error) {
	members, err := reply.AsZScores()
	if err != nil {
		return nil, err
	}
	var log bucket.Log
	for _, m := range members {
		if len(m.Member) != attemptBytes {
			return nil, fmt.Errorf("an attempt of %d bytes, want %d", len(m.Member), attemptBytes)
		}
		log = append(log, bucket.Attempt{
			At:     time.Duration(m.Score) * time.Microsecond,
			Member: binary.LittleEndian.Uint64([]byte(m.Member)),
			Count:  int64(binary.LittleEndian.Uint32([]byte(m.Member[8:]))),
		})
	}
	return log, nil
}

// attemptBytes is the length of a log's member: its name and what it counts.
const attemptBytes = 12

// life is what PTTL says; 0 where there is no key or no end.
func life(reply rueidis.RedisResult) time.Duration {
	ms, _ := reply.AsInt64()
	return time.Duration(max(0, ms)) * time.Millisecond
}
