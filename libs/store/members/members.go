// Package members counts the live pods of a region, each of which tells the others
// that it lives by heartbeats to a roster that they share.
package members

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The constants of membership. A pod that is gone is counted for Life at
// most: meanwhile the others lease a little less than they could.
const (
	Life    = 7 * time.Second // of a heartbeat: three of them may be lost
	beat    = 2 * time.Second // between heartbeats, ± 25 %
	timeout = time.Second     // of a heartbeat's call: nobody waits for it
	podMax  = 253             // bytes of a pod's id
	podsMax = 100_000         // pods that a state file may claim
)

// A Roster knows which pods of a region live. Safe for concurrent use.
type Roster interface {
	// Beat notes that a pod lives, for Life from now on, or that it has left, and
	// returns how many live. An error means that nothing is known.
	Beat(ctx context.Context, pod string, alive bool) (live int, err error)
}

// Config is what Members are made of.
type Config struct {
	Pod   string // this pod's id: no two pods have the same
	Least int    // pods that the region has at least, whatever the store says; at least 1
	File  string // where the last count is kept over restarts; "": nowhere

	Roster Roster
	Logger *slog.Logger
}

// Members counts the live pods of a region by their heartbeats. While the
// roster is away the last count stands. Safe for concurrent use.
type Members struct {
	cfg   Config
	count atomic.Int64
	lower int64     // the most of the counts that were lower than count, since fell
	fell  time.Time // zero: the last count was not lower
}

// New makes the members of a region and reads the last count from the
// file, if there is one. An error names the field that is out of range, or says
// why the file cannot be read.
func New(cfg Config) (*Members, error) {
	if err := ValidatePod(cfg.Pod); err != nil {
		return nil, err
	}
	if cfg.Least < 1 || cfg.Least > podsMax {
		return nil, fmt.Errorf("region pods is %d: want 1 to %d", cfg.Least, podsMax)
	}
	m := &Members{cfg: cfg}
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
	if err != nil || n < 1 || n > podsMax {
		return nil, fmt.Errorf("the last count of pods in %s is %.20q: want 1 to %d", cfg.File, text, podsMax)
	}
	m.count.Store(max(n, int64(cfg.Least)))
	return m, nil
}

// ValidatePod reports what is no pod's id.
func ValidatePod(id string) error {
	if id == "" || len(id) > podMax {
		return fmt.Errorf("pod id %.40q has %d bytes: want 1 to %d", id, len(id), podMax)
	}
	return nil
}

// Count is the number of live pods, as last heard, and never below Least.
func (m *Members) Count() int { return int(m.count.Load()) }

// Run sends heartbeats until ctx ends, then leaves the region, so that the
// others need not wait for this pod's life to run out.
func (m *Members) Run(ctx context.Context) {
	for {
		m.tell(ctx, true)
		select {
		case <-time.After(time.Duration(float64(beat) * (0.75 + 0.5*rand.Float64()))):
		case <-ctx.Done():
			m.tell(context.WithoutCancel(ctx), false)
			return
		}
	}
}

// tell sends one heartbeat. One that fails is as if the roster were away.
func (m *Members) tell(ctx context.Context, alive bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	live, err := m.cfg.Roster.Beat(ctx, m.cfg.Pod, alive)
	if err != nil || !alive {
		return
	}
	n := int64(live)
	n = m.settle(time.Now(), min(max(n, int64(m.cfg.Least)), podsMax))
	if m.count.Swap(n) == n || m.cfg.File == "" {
		return
	}
	if err := keep(m.cfg.File, n); err != nil {
		m.cfg.Logger.Warn("the count of pods cannot be kept", "error", err)
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
	if now.Sub(m.fell) < Life {
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
