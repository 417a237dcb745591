package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/testenv"
)

// soakCommand is the command that looks for what grows.
type soakCommand struct {
	flags `embed:""`

	Outage   time.Duration `default:"60s" help:"How long a primary is frozen and not replaced (default 60s)."`
	Duration time.Duration `default:"10m" help:"How long rules are edited at random afterwards, 10s at least (default 10m)."`
}

// The bounds of a soak.
const (
	goroutinesMore  = 2000             // in an outage: requests and calls on their way
	heapMore        = 64 << 20         // bytes, after a collection
	connectionsPer  = 3.0              // a second and pod, in an outage: those of probes and of the topology, and no storm
	connectionsCalm = 0.2              // and without: a machine that stands still for a moment has them all begun again
	settling        = 30 * time.Second // until what is kept of rules that come and go is at its bound
	stallMost       = 16_384           // requests that a machine which stands still for a moment finds due
	editEvery       = 20 * time.Millisecond
	sampleEvery     = time.Second
	printEvery      = 10 // samples
	durationLeast   = 10 * time.Second
)

// Validate implements kong's check of values.
func (cmd *soakCommand) Validate() error {
	if cmd.Duration < durationLeast {
		return fmt.Errorf("--duration is %v: want %v at least", cmd.Duration, durationLeast)
	}
	return cmd.flags.Validate()
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
	before.accepted = others.accepted
	fleet.Timeline.Begin()
	samples, err := sample(ctx, stdout, "outage", c, cmd.Outage, nil)
	thawed := node.Thaw()
	if err := errors.Join(err, thawed); err != nil {
		return err
	}
	p99, longest := fleet.Timeline.Latency(99, Every)
	s := fleet.Timeline.Between(begin, fleet.Timeline.Now(), Every)
	fmt.Fprintf(stdout, "outage of %v: p99 %v, longest %v, own stall %v; %s\n", cmd.Outage, short(p99), short(longest),
		short(fleet.Timeline.Stall(begin, fleet.Timeline.Now())), by(&s))
	connections := int64(connectionsPer * cmd.Outage.Seconds() * float64(cmd.Pods))
	return bounded("outage", before, samples, usage{goroutines: goroutinesMore, heap: heapMore, accepted: connections})
}

// edits changes what the rules say, at random and for as long as was asked.
func (cmd *soakCommand) edits(ctx context.Context, stdout io.Writer, c *testenv.RedisCluster, fleet *Fleet, before usage) error {
	fleet.Timeline.Condense()
	e := newEditor(fleet, cmd.Scale)
	// What the outage left behind comes to an end, and what has a bound reaches it.
	manyAtOnce(stallMost)
	if _, err := sample(ctx, stdout, "settling", c, settling, e.edit); err != nil {
		return err
	}
	thawed, err := measure(ctx, c)
	if err != nil {
		return err
	}
	before.accepted = thawed.accepted
	changes := len(fleet.Timeline.Changes())
	samples, err := sample(ctx, stdout, "edits", c, cmd.Duration, e.edit)
	if err != nil {
		return err
	}
	s := fleet.Timeline.Sums()
	fmt.Fprintf(stdout, "%d edits in %v: %v; %s; breakers changed %d times, and are not closed: %s\n", e.version-1, cmd.Duration, e.by, by(&s),
		len(fleet.Timeline.Changes())-changes, fleet.notClosed())
	connections := int64(connectionsCalm * cmd.Duration.Seconds() * float64(cmd.Pods))
	return errors.Join(bounded("edits", before, samples, usage{goroutines: stallMost, heap: heapMore, accepted: connections}), flat(samples))
}

// manyAtOnce runs so many goroutines at once. The runtime keeps their descriptors,
// some 450 bytes each, for good: a stall must not look like a leak.
func manyAtOnce(n int) {
	var all sync.WaitGroup
	end := make(chan struct{})
	for range n {
		all.Go(func() { <-end })
	}
	close(end)
	all.Wait()
}

// sample measures once a second, and prints each tenth. Meanwhile it calls do every
// 20 ms, unless that is nil.
func sample(ctx context.Context, stdout io.Writer, name string, c *testenv.RedisCluster, d time.Duration, do func()) (samples []usage, err error) {
	tick := time.NewTicker(editEvery)
	defer tick.Stop()
	end := time.After(d)
	for next := time.Now().Add(sampleEvery); ; {
		select {
		case <-ctx.Done():
			return samples, ctx.Err()
		case <-end:
			return samples, nil
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
			return samples, err
		}
		if samples = append(samples, u); len(samples)%printEvery == 0 {
			fmt.Fprintf(stdout, "%-8s %v\n", name, u)
		}
	}
}

// bounded reports what of the samples was more than before by more than it may be.
func bounded(name string, before usage, samples []usage, may usage) error {
	var most usage
	for _, u := range samples {
		most.goroutines, most.heap, most.accepted = max(most.goroutines, u.goroutines), max(most.heap, u.heap), max(most.accepted, u.accepted)
	}
	var faults []error
	if n := most.goroutines - before.goroutines; n > may.goroutines {
		faults = append(faults, fmt.Errorf("%s: %d goroutines more than before, want %d at most", name, n, may.goroutines))
	}
	if n := most.heap - before.heap; n > may.heap {
		faults = append(faults, fmt.Errorf("%s: %d bytes of heap more than before, want %d at most", name, n, may.heap))
	}
	if n := most.accepted - before.accepted; n > may.accepted {
		faults = append(faults, fmt.Errorf("%s: %d connections were begun, want %d at most", name, n, may.accepted))
	}
	return errors.Join(faults...)
}
