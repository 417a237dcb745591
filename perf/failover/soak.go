package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/testenv"
)

// soakCommand is the command that looks for what grows.
type soakCommand struct {
	flags `embed:""`

	Outage   time.Duration `default:"60s" help:"How long a primary is frozen and not replaced (default 60s)."`
	Duration time.Duration `default:"60s" help:"How long rules are edited at random afterwards (default 60s)."`
}

// The bounds of a soak.
const (
	goroutinesMore = 2000     // in an outage: requests and calls on their way
	heapMore       = 64 << 20 // bytes, after a collection
	connectionsPer = 3.0      // a second and pod: those of probes and of the topology, and no storm
	editEvery      = 20 * time.Millisecond
	sampleEvery    = time.Second
	editScaleMost  = 4.0 // an edit makes a limit a quarter to four times what it was
)

// usage is what the process and the cluster hold at a moment.
type usage struct {
	goroutines  int
	heap        uint64 // bytes that live, after a collection
	connections int64  // that the running nodes have accepted since they started
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MiB live, %d connections accepted", u.goroutines, float64(u.heap)/(1<<20), u.connections)
}

func (cmd *soakCommand) run(ctx context.Context, stdout io.Writer) error {
	cmd.NodeTimeout = max(cmd.NodeTimeout, time.Minute) // nobody takes over
	c, fleet, close, err := cmd.start(ctx, false)
	if err != nil {
		return err
	}
	defer close()
	if err := pass(ctx, calm); err != nil {
		return err
	}
	before, err := measure(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "before   %v\n", before)
	return errors.Join(cmd.outage(ctx, stdout, c, fleet, before), cmd.edits(ctx, stdout, c, fleet, before))
}

// outage freezes a primary and samples until it thaws.
func (cmd *soakCommand) outage(ctx context.Context, stdout io.Writer, c *testenv.RedisCluster, fleet *Fleet, before usage) error {
	node, err := c.PrimaryOf(ctx, 0)
	if err != nil {
		return err
	}
	if err := node.Freeze(); err != nil {
		return err
	}
	begin := fleet.Timeline.Mark("%s is frozen", node.Name())
	others, err := measure(ctx, c) // what the frozen one has accepted is counted when it thaws
	if err != nil {
		return errors.Join(err, node.Thaw())
	}
	before.connections = others.connections
	fleet.Timeline.Begin()
	most, err := cmd.sample(ctx, stdout, "outage", c, cmd.Outage, nil)
	thawed := node.Thaw()
	if err := errors.Join(err, thawed); err != nil {
		return err
	}
	p99, longest := fleet.Timeline.Latency(99, Every)
	s := fleet.Timeline.Between(begin, fleet.Timeline.Now(), Every)
	fmt.Fprintf(stdout, "outage of %v: p99 %v, longest %v, own stall %v; %s\n", cmd.Outage, short(p99), short(longest),
		short(fleet.Timeline.Stall(begin, fleet.Timeline.Now())), by(&s))
	return cmd.within("outage", cmd.Outage, before, most)
}

// edits gives rules other limits at random for as long as was asked.
func (cmd *soakCommand) edits(ctx context.Context, stdout io.Writer, c *testenv.RedisCluster, fleet *Fleet, before usage) error {
	version := int64(1)
	edit := func() {
		version++
		kind := Kinds[rand.IntN(len(Kinds))]
		by := 1/editScaleMost + rand.Float64()*(editScaleMost-1/editScaleMost)
		kind.Limit.Rate *= limit.Rate(cmd.Scale * by)
		kind.Limit.Burst = max(kind.Cost, int64(float64(kind.Limit.Burst)*cmd.Scale*by))
		fleet.edit(ruleOf(kind, version))
	}
	most, err := cmd.sample(ctx, stdout, "edits", c, cmd.Duration, edit)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d edits in %v\n", version-1, cmd.Duration)
	return cmd.within("edits", cmd.Outage+cmd.Duration, before, most)
}

// sample measures once a second and returns the most of each figure. Meanwhile it
// calls do every 20 ms, unless that is nil.
func (cmd *soakCommand) sample(ctx context.Context, stdout io.Writer, name string, c *testenv.RedisCluster, d time.Duration, do func()) (most usage, err error) {
	tick := time.NewTicker(editEvery)
	defer tick.Stop()
	end := time.After(d)
	for next := time.Now().Add(sampleEvery); ; {
		select {
		case <-ctx.Done():
			return most, ctx.Err()
		case <-end:
			return most, nil
		case <-tick.C:
		}
		if do != nil {
			do()
		}
		if time.Now().Before(next) {
			continue
		}
		next = next.Add(sampleEvery)
		u, err := measure(ctx, c)
		if err != nil {
			return most, err
		}
		fmt.Fprintf(stdout, "%-8s %v\n", name, u)
		most.goroutines, most.heap, most.connections = max(most.goroutines, u.goroutines), max(most.heap, u.heap), max(most.connections, u.connections)
	}
}

// within reports what grew beyond its bound.
func (cmd *soakCommand) within(name string, d time.Duration, before, most usage) error {
	var faults []error
	if n := most.goroutines - before.goroutines; n > goroutinesMore {
		faults = append(faults, fmt.Errorf("%s: %d goroutines more than before, want %d at most", name, n, goroutinesMore))
	}
	if n := int64(most.heap) - int64(before.heap); n > heapMore {
		faults = append(faults, fmt.Errorf("%s: %d bytes of heap more than before, want %d at most", name, n, heapMore))
	}
	bound := int64(connectionsPer * d.Seconds() * float64(cmd.Pods))
	if n := most.connections - before.connections; n > bound {
		faults = append(faults, fmt.Errorf("%s: %d connections were begun, want %d at most", name, n, bound))
	}
	return errors.Join(faults...)
}

// measure reads the process's figures, and those of the nodes that run.
func measure(ctx context.Context, c *testenv.RedisCluster) (u usage, err error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.goroutines, u.heap = runtime.NumGoroutine(), m.HeapAlloc
	for _, n := range c.Nodes() {
		if !n.Running() {
			continue
		}
		text, err := n.Do(ctx, "INFO", "stats").ToString()
		if err != nil {
			return u, fmt.Errorf("%s: %w", n.Name(), err)
		}
		for l := range strings.Lines(text) {
			if value, ok := strings.CutPrefix(l, "total_connections_received:"); ok {
				count, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				if err != nil {
					return u, fmt.Errorf("%s: %w", n.Name(), err)
				}
				u.connections += count
			}
		}
	}
	return u, nil
}
