package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// SlotRange is some adjacent hash slots, both ends included.
type SlotRange struct {
	First, Last int
}

func (s SlotRange) has(slot int) bool { return s.First <= slot && slot <= s.Last }

func serves(slots []SlotRange, slot int) bool {
	return slices.ContainsFunc(slots, func(s SlotRange) bool { return s.has(slot) })
}

// Role is what a node is in its cluster.
type Role struct {
	Node    *Node
	Primary *Node       // whom it copies; nil for a primary
	Slots   []SlotRange // what it serves; nil for a replica
}

// Topology returns what each running node says of itself, in the order of Nodes.
// Dead and frozen nodes are not in it. During a change a slot can be nobody's.
func (c *RedisCluster) Topology(ctx context.Context) ([]Role, error) {
	views, err := c.views(ctx)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]*Node, len(c.nodes))
	for _, n := range c.nodes {
		byID[n.id] = n
	}
	var roles []Role
	for _, n := range c.nodes {
		if v := views[n]; v != nil {
			self := v.members[n.id]
			roles = append(roles, Role{Node: n, Primary: byID[self.primary], Slots: self.slots})
		}
	}
	return roles, nil
}

// PrimaryOf returns the running primary that serves a slot, 0 to 16383. The
// error wraps ErrNobody while there is none.
func (c *RedisCluster) PrimaryOf(ctx context.Context, slot int) (*Node, error) {
	if slot < 0 || slot >= Slots {
		return nil, fmt.Errorf("slot %d: want 0 to %d", slot, Slots-1)
	}
	roles, err := c.Topology(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range roles {
		if serves(r.Slots, slot) {
			return r.Node, nil
		}
	}
	return nil, fmt.Errorf("slot %d: %w", slot, ErrNobody)
}

// ErrNobody says that no running primary serves a slot.
var ErrNobody = errors.New("no running primary serves it")

// WaitPrimaryOf waits until a running primary serves a slot, so until a replica
// of a dead one has been promoted.
func (c *RedisCluster) WaitPrimaryOf(ctx context.Context, slot int) (*Node, error) {
	var primary *Node
	err := until(ctx, func(ctx context.Context) (err error) {
		primary, err = c.PrimaryOf(ctx, slot)
		return err
	})
	return primary, err
}

// ReplicasOf returns the running replicas of a node.
func (c *RedisCluster) ReplicasOf(ctx context.Context, primary *Node) ([]*Node, error) {
	roles, err := c.Topology(ctx)
	if err != nil {
		return nil, err
	}
	var replicas []*Node
	for _, r := range roles {
		if r.Primary == primary {
			replicas = append(replicas, r.Node)
		}
	}
	return replicas, nil
}

// SlotOf returns the hash slot of a key.
func (c *RedisCluster) SlotOf(key string) int {
	command := c.nodes[0].Client().B().Arbitrary("GET").Build().SetSlot(key)
	return int(command.Slot()) % Slots // above, it says that the client minds no slots
}

// Failover makes a replica the primary in place of its own, which becomes its
// replica: a hand-over that loses nothing, as before maintenance. It returns
// when the replica serves; WaitHealthy waits until all nodes know.
func (c *RedisCluster) Failover(ctx context.Context, replica *Node) error {
	if err := replica.order(ctx, "CLUSTER", "FAILOVER"); err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		views, err := c.views(ctx)
		if err != nil {
			return err
		}
		if v := views[replica]; v == nil || v.members[replica.id].primary != "" {
			return fmt.Errorf("%s is a replica still", replica.name)
		}
		return nil
	})
}
