package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// The constants of membership. A pod that is gone is counted for memberLife at
// most: meanwhile the others lease a little less than they could.
const (
	memberBeat    = 2 * time.Second // between heartbeats, ± 25 %
	memberLife    = 7 * time.Second // of a heartbeat: three of them may be lost
	memberTimeout = time.Second     // of a heartbeat's call: nobody waits for it
	membersMax    = 100_000         // pods that a state file may claim
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

// MembersConfig is what Members are made of.
type MembersConfig struct {
	Region string // whose pods share this store's counters
	Pod    string // this pod's id: no two pods have the same
	Least  int    // pods that the region has at least, whatever the store says; at least 1
	File   string // where the last count is kept over restarts; "": nowhere
}

// Members counts the live pods of a region by a heartbeat set in the store, on
// the store's clock. While the store is away the last count stands. Safe for
// concurrent use.
type Members struct {
	cfg   MembersConfig
	store *Store
	count atomic.Int64
	lower int64     // the most of the counts that were lower than count, since fell
	fell  time.Time // zero: the last count was not lower
}

// NewMembers makes the members of a region and reads the last count from the
// file, if there is one. An error names the field that is out of range, or says
// why the file cannot be read.
func NewMembers(s *Store, cfg MembersConfig) (*Members, error) {
	if err := limit.ValidateName("region", cfg.Region); err != nil {
		return nil, err
	}
	if cfg.Pod == "" || len(cfg.Pod) > 253 {
		return nil, fmt.Errorf("pod id %.40q has %d bytes: want 1 to 253", cfg.Pod, len(cfg.Pod))
	}
	if cfg.Least < 1 || cfg.Least > membersMax {
		return nil, fmt.Errorf("region pods is %d: want 1 to %d", cfg.Least, membersMax)
	}
	m := &Members{cfg: cfg, store: s}
	m.count.Store(int64(cfg.Least))
	if cfg.File == "" {
		return m, nil
	}
	text, err := os.ReadFile(cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the last count of pods: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 1 || n > membersMax {
		return nil, fmt.Errorf("the last count of pods in %s is %.20q: want 1 to %d", cfg.File, text, membersMax)
	}
	m.count.Store(max(n, int64(cfg.Least)))
	return m, nil
}

// Count is the number of live pods, as last heard, and never below Least.
func (m *Members) Count() int { return int(m.count.Load()) }

// Run sends heartbeats until ctx ends, then leaves the region, so that the
// others need not wait for this pod's life to run out.
func (m *Members) Run(ctx context.Context) {
	for {
		m.beat(ctx, true)
		select {
		case <-time.After(time.Duration(float64(memberBeat) * (0.75 + 0.5*rand.Float64()))):
		case <-ctx.Done():
			m.beat(context.WithoutCancel(ctx), false)
			return
		}
	}
}

// beat sends one heartbeat. One that fails is as if the store were away.
func (m *Members) beat(ctx context.Context, alive bool) {
	client := m.store.client.Load()
	if client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	joins := "0"
	if alive {
		joins = "1"
	}
	c := *client
	n, err := c.Do(ctx, c.B().Eval().Script(heartbeat).Numkeys(1).Key("rl:{pods/"+m.cfg.Region+"}").
		Arg(m.cfg.Pod, strconv.FormatInt(memberLife.Milliseconds(), 10), joins).Build()).AsInt64()
	if err != nil || !alive {
		return
	}
	n = m.settle(time.Now(), min(max(n, int64(m.cfg.Least)), membersMax))
	if m.count.Swap(n) == n || m.cfg.File == "" {
		return
	}
	if err := keep(m.cfg.File, n); err != nil {
		m.store.cfg.Logger.Warn("the count of pods cannot be kept", "error", err)
	}
}

// settle is what a new count comes to. A higher one is taken at once, a lower
// one when it has been lower for a heartbeat's life: the set may have been lost
// with a failover, and each pod is in it again after its next heartbeat.
func (m *Members) settle(now time.Time, n int64) int64 {
	last := m.count.Load()
	switch {
	case n >= last:
		m.lower, m.fell = 0, time.Time{}
		return n
	case m.fell.IsZero():
		m.lower, m.fell = n, now
		return last
	}
	m.lower = max(m.lower, n)
	if now.Sub(m.fell) < memberLife {
		return last
	}
	n = m.lower
	m.lower, m.fell = 0, time.Time{}
	return n
}

// keep replaces the file whole: a crash leaves the old count or the new.
func keep(file string, n int64) error {
	next, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(next, n)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	return nil
}
