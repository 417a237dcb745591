package failover

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/shiplane/limits/libs/testenv"
)

// usage is what the process and the cluster hold at a moment.
type usage struct {
	goroutines int
	heap       int64 // bytes that live, after a collection
	accepted   int64 // connections that the running nodes have accepted since they started
	clients    int64 // those that are open
	store      int64 // bytes that the running nodes hold
}

func (u usage) String() string {
	const mib = 1 << 20
	return fmt.Sprintf("%d goroutines, %.1f MiB live, %d connections accepted, %d open, %.1f MiB in the store",
		u.goroutines, float64(u.heap)/mib, u.accepted, u.clients, float64(u.store)/mib)
}

// measure reads the process's figures, and those of the nodes that run.
func measure(ctx context.Context, c *testenv.RedisCluster) (u usage, err error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.goroutines, u.heap = runtime.NumGoroutine(), int64(m.HeapAlloc)
	for _, n := range c.Nodes() {
		if !n.Running() {
			continue
		}
		text, err := n.Do(ctx, "INFO").ToString()
		if err == nil {
			err = u.add(text)
		}
		if err != nil {
			return u, fmt.Errorf("%s: %w", n.Name(), err)
		}
	}
	return u, nil
}

// add adds a node's figures, from its INFO.
func (u *usage) add(info string) error {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		field := map[string]*int64{"total_connections_received": &u.accepted, "connected_clients": &u.clients, "used_memory": &u.store}[name]
		if field == nil {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%s of INFO: %w", name, err)
		}
		*field += n
	}
	return nil
}

// What may be more in the last third of the edits than in the first, by their
// medians. Each edit that left 200 bytes behind would be 2.6 MiB of ten minutes'.
const (
	heapDrift       = 2 << 20 // bytes
	storeDrift      = 2 << 20 // bytes
	goroutinesDrift = 50      // requests on their way come and go
	clientsDrift    = 6
)

// flat reports what has grown from the first third of the samples to the last.
func flat(samples []usage) error {
	third := len(samples) / 3
	if third == 0 {
		return fmt.Errorf("%d samples tell no drift", len(samples))
	}
	first, last := samples[:third], samples[len(samples)-third:]
	var faults []error
	for _, c := range []struct {
		what string
		of   func(usage) int64
		most int64
	}{
		{"bytes of heap", func(u usage) int64 { return u.heap }, heapDrift},
		{"bytes in the store", func(u usage) int64 { return u.store }, storeDrift},
		{"goroutines", func(u usage) int64 { return int64(u.goroutines) }, goroutinesDrift},
		{"open connections", func(u usage) int64 { return u.clients }, clientsDrift},
	} {
		if grown := median(last, c.of) - median(first, c.of); grown > c.most {
			faults = append(faults, fmt.Errorf("edits: %d %s more in the last third than in the first, want %d at most", grown, c.what, c.most))
		}
	}
	return errors.Join(faults...)
}

func median(samples []usage, of func(usage) int64) int64 {
	var values []int64
	for _, u := range samples {
		values = append(values, of(u))
	}
	slices.Sort(values)
	return values[len(values)/2]
}
