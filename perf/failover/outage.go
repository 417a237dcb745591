package failover

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// Mode is how a primary fails.
type Mode string

// The modes. After kill and freeze a replica takes over; the others end by
// themselves, for the cluster notices nothing of them.
const (
	Kill      Mode = "kill"      // SIGKILL: connections end, new ones are refused
	Freeze    Mode = "freeze"    // SIGSTOP: connections stay, nothing is answered
	Delay     Mode = "delay"     // every reply comes four timeouts late
	Loss      Mode = "loss"      // every second reply is lost
	Partition Mode = "partition" // nothing passes in either direction
)

// delays is how many timeouts late a reply comes under Delay.
const delays = 4

// faults are what a proxy does in the modes that are a wire's.
func (m Mode) faults(timeout time.Duration) (faults tcpproxy.Faults, wire bool) {
	switch m {
	case Delay:
		return tcpproxy.Faults{Delay: delays * timeout}, true
	case Loss:
		return tcpproxy.Faults{Loss: 0.5}, true
	case Partition:
		return tcpproxy.Faults{Silent: true}, true
	}
	return tcpproxy.Faults{}, false
}

// Outage is one primary's failure and recovery, in times of the timeline.
type Outage struct {
	Shard                      int
	Name                       string // the shard's
	Began, Opened, Back, Ended time.Duration
	// Opened: the first breaker. Back: another node serves, or the wire is
	// healed. Ended: every breaker is closed.
}

// Seconds is how long it was, for callers.
func (o *Outage) Seconds() float64 { return (o.Ended - o.Began).Seconds() }

// healedAfter is how long an outage lasts that no failover ends.
const healedAfter = 2 * time.Second

// Fail lets the primary of a slot fail and returns when every pod's breaker is
// closed again. The cluster's nodes need proxies, but for Kill and Freeze.
func (f *Fleet) Fail(ctx context.Context, c *testenv.RedisCluster, mode Mode, slot int, timeout time.Duration) (*Outage, error) {
	node, err := c.PrimaryOf(ctx, slot)
	if err != nil {
		return nil, err
	}
	o, err := f.outageOf(ctx, c, node)
	if err != nil {
		return nil, err
	}
	o.Began = f.Timeline.Mark("%s of %s, which serves the slots from %s", mode, node.Name(), o.Name)
	f.Timeline.Begin()
	faults, wire := mode.faults(timeout)
	switch {
	case wire:
		err = node.Proxy().Set(faults)
	case mode == Freeze:
		err = node.Freeze()
	default:
		node.Kill()
	}
	if err != nil {
		return nil, err
	}
	if err := Poll(ctx, "a breaker opens", func() bool { return f.Timeline.NotClosed(o.Name, f.Timeline.Now()) > 0 }); err != nil {
		return nil, err
	}
	o.Opened = f.opened(o)
	if err := f.restore(ctx, c, node, slot, wire); err != nil {
		return nil, err
	}
	o.Back = f.Timeline.Mark("the shard is back")
	err = Poll(ctx, "every breaker is closed", func() bool { return f.Timeline.NotClosed(o.Name, f.Timeline.Now()) == 0 })
	o.Ended = f.Timeline.Mark("every breaker is closed")
	return o, err
}

// restore waits until the shard is served again, or heals its wire.
func (f *Fleet) restore(ctx context.Context, c *testenv.RedisCluster, node *testenv.Node, slot int, wire bool) error {
	if !wire {
		_, err := c.WaitPrimaryOf(ctx, slot)
		return err
	}
	select {
	case <-time.After(healedAfter):
		return node.Proxy().Set(tcpproxy.Faults{})
	case <-ctx.Done():
		return ctx.Err()
	}
}

// opened is when the first breaker of the shard opened after the outage began.
func (f *Fleet) opened(o *Outage) time.Duration {
	for _, c := range f.Timeline.Changes() {
		if c.Shard == o.Name && c.At >= o.Began {
			return c.At
		}
	}
	return f.Timeline.Now()
}

// outageOf finds the number and the name of the shard that a primary serves.
func (f *Fleet) outageOf(ctx context.Context, c *testenv.RedisCluster, primary *testenv.Node) (*Outage, error) {
	roles, err := c.Topology(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		if r.Node != primary || len(r.Slots) == 0 {
			continue
		}
		name := fmt.Sprint(r.Slots[0].First)
		if i := slices.Index(f.names, name); i >= 0 {
			return &Outage{Shard: i, Name: name}, nil
		}
	}
	return nil, fmt.Errorf("%s serves no shard that was there at the start", primary.Name())
}
