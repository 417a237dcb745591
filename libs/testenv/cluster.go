package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Slots is how many hash slots a cluster has.
const Slots = 16384

// Bounds of a cluster.
const (
	primariesMax   = 64
	replicasMax    = 5
	nodeTimeoutMin = 200 * time.Millisecond // less, and a busy machine is a failed one
	nodeTimeoutMax = time.Minute
)

// The node timeout while a cluster forms. Nodes ask each other what they are
// after half of it: the less the sooner. But on a machine that is busy with many
// nodes a short one makes them suspect each other, so it begins at the least, and
// is doubled when they are not of one mind after settleAfter times as much.
const (
	formingMin  = time.Second
	formingMax  = 16 * time.Second
	settleAfter = 3 // a suspicion lasts for up to twice the node timeout
)

// introduceAgain is when a node that has not answered a MEET gets another one.
const introduceAgain = 3 * time.Second

// RedisClusterConfig says how a cluster runs. Without a Config that says
// otherwise its nodes serve what they have while slots are missing
// (cluster-require-full-coverage no), and replicas never move by themselves.
type RedisClusterConfig struct {
	RedisConfig

	// Primaries is 1 to 64, 0 for 3. A replica is promoted by a majority of
	// them: with fewer than 3 nothing survives a dead primary.
	Primaries int

	// Replicas of each primary, 0 to 5.
	Replicas int

	// NodeTimeout is the time without an answer, 200 ms to 1 min, after which a
	// node is suspected; a replica is promoted 1 to 2 s later. 0 is Redis' 15 s.
	NodeTimeout time.Duration
}

func (c *RedisClusterConfig) validate() error {
	var faults []error
	if c.Primaries < 1 || c.Primaries > primariesMax {
		faults = append(faults, fmt.Errorf("primaries: %d, want 1 to %d", c.Primaries, primariesMax))
	}
	if c.Replicas < 0 || c.Replicas > replicasMax {
		faults = append(faults, fmt.Errorf("replicas: %d, want 0 to %d", c.Replicas, replicasMax))
	}
	if c.NodeTimeout < nodeTimeoutMin || c.NodeTimeout > nodeTimeoutMax {
		faults = append(faults, fmt.Errorf("node timeout: %v, want %v to %v", c.NodeTimeout, nodeTimeoutMin, nodeTimeoutMax))
	}
	return errors.Join(faults...)
}

// RedisCluster is a running Redis Cluster.
type RedisCluster struct {
	*Redis
}

// StartRedisCluster starts a cluster and waits until it is healthy, as
// WaitHealthy says. Primary i of n serves the i-th n-th part of the slots.
func StartRedisCluster(ctx context.Context, cfg RedisClusterConfig) (*RedisCluster, error) {
	if cfg.Primaries == 0 {
		cfg.Primaries = 3
	}
	if cfg.NodeTimeout == 0 {
		cfg.NodeTimeout = 15 * time.Second
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("start redis cluster: %w", err)
	}
	r, err := newRedis(cfg.RedisConfig)
	if err != nil {
		return nil, fmt.Errorf("start redis cluster: %w", err)
	}
	c := &RedisCluster{r}
	err = r.start(ctx, cfg.Primaries*(1+cfg.Replicas), true, cfg.NodeTimeout)
	if err == nil {
		err = c.form(ctx, cfg.Primaries, cfg.NodeTimeout)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start redis cluster: %w", err), r.Close())
	}
	return c, nil
}

// form makes a cluster of nodes that know nothing of each other.
func (c *RedisCluster) form(ctx context.Context, primaries int, nodeTimeout time.Duration) error {
	number := make(map[*Node]int, len(c.nodes))
	for i, n := range c.nodes {
		number[n] = i
	}
	// Slots and epochs first: what a node says when it meets another is final.
	err := c.each(ctx, c.nodes, func(ctx context.Context, n *Node) error {
		return n.prepare(ctx, number[n], primaries)
	})
	if err != nil {
		return err
	}
	err = c.introduce(ctx, func(n *Node) []*Node { return c.nodes[:number[n]] })
	if err != nil {
		return err
	}
	err = c.each(ctx, c.nodes[primaries:], func(ctx context.Context, n *Node) error {
		primary := c.nodes[number[n]%primaries]
		return until(ctx, func(ctx context.Context) error { // until it has heard of its primary
			return n.order(ctx, "CLUSTER", "REPLICATE", primary.id)
		})
	})
	if err != nil {
		return err
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	noFailover, set := c.cfg.Config[noFailoverDirective]
	if !set {
		noFailover = "no"
	}
	return c.configure(ctx, nodeTimeoutDirective, milliseconds(nodeTimeout), noFailoverDirective, noFailover)
}

// settle waits until all nodes know what the others are.
func (c *RedisCluster) settle(ctx context.Context) error {
	for timeout := formingMin; ; timeout = min(2*timeout, formingMax) {
		if err := c.configure(ctx, nodeTimeoutDirective, milliseconds(timeout)); err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, settleAfter*timeout)
		err := c.WaitHealthy(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// configure sets directives of all nodes.
func (c *RedisCluster) configure(ctx context.Context, directives ...string) error {
	return c.each(ctx, c.nodes, func(ctx context.Context, n *Node) error {
		return n.order(ctx, append([]string{"CONFIG", "SET"}, directives...)...)
	})
}

// Directives that differ while a cluster forms: a node that is slow then loses no
// slots by it.
const (
	nodeTimeoutDirective = "cluster-node-timeout"
	noFailoverDirective  = "cluster-replica-no-failover"
)

// prepare makes the i-th node ready to meet the others: epoch, slots if it is
// one of the first, directives.
func (n *Node) prepare(ctx context.Context, i, primaries int) error {
	orders := [][]string{
		{"CONFIG", "SET", nodeTimeoutDirective, milliseconds(formingMax), noFailoverDirective, "yes"},
		{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)},
	}
	if i < primaries {
		first, last := i*Slots/primaries, (i+1)*Slots/primaries-1
		orders = append(orders, []string{"CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)})
	}
	for _, order := range orders {
		if err := n.order(ctx, order...); err != nil {
			return err
		}
	}
	return nil
}

// introduce lets all nodes know each other. Each one meets those before it, at
// once: gossip alone takes seconds. A node that is too busy to answer within the
// node timeout is forgotten, so who is not known is met again.
func (c *RedisCluster) introduce(ctx context.Context, before func(*Node) []*Node) error {
	toMeet := before
	for {
		err := c.each(ctx, c.nodes, func(ctx context.Context, n *Node) error { return n.meet(ctx, toMeet(n)) })
		if err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, introduceAgain)
		err = until(attempt, func(ctx context.Context) error {
			views, err := c.views(ctx)
			if err != nil {
				return err
			}
			toMeet = func(n *Node) []*Node { return strangers(views[n], c.nodes) }
			for _, n := range c.nodes {
				if unknown := toMeet(n); len(unknown) > 0 {
					return fmt.Errorf("%s does not know %s", n.name, unknown[0].name)
				}
			}
			return nil
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// strangers are the nodes that a view lacks; none if the node is gone, whom the
// next order to it names.
func strangers(v *view, nodes []*Node) []*Node {
	if v == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *Node) bool {
		_, known := v.members[n.id]
		return known
	})
}

func (n *Node) meet(ctx context.Context, others []*Node) error {
	for _, other := range others {
		address := other.servers.cfg.Address
		err := n.order(ctx, "CLUSTER", "MEET", address, strconv.Itoa(other.port.Number()), strconv.Itoa(other.bus.Number()))
		if err != nil {
			return err
		}
	}
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
