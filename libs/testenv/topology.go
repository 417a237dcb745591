package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// SlotRange is some adjacent hash slots, both ends included.
type SlotRange struct {
	First, Last int
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
		if slices.ContainsFunc(r.Slots, func(s SlotRange) bool { return s.First <= slot && slot <= s.Last }) {
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

// WaitHealthy waits until all running nodes are of one mind: all know each
// other, none suspects another, each slot is served by one of them, and each
// replica has its primary's data. Dead and frozen nodes do not matter.
func (c *RedisCluster) WaitHealthy(ctx context.Context) error {
	err := until(ctx, func(ctx context.Context) error {
		views, err := c.views(ctx)
		if err != nil {
			return err
		}
		return healthy(views)
	})
	if err != nil {
		return fmt.Errorf("redis cluster is not healthy: %w", err)
	}
	return nil
}

// views asks each running node for its view of the cluster.
func (c *RedisCluster) views(ctx context.Context) (map[*Node]*view, error) {
	running := slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node) bool { return !n.Running() })
	var mu sync.Mutex
	views := make(map[*Node]*view, len(running))
	err := c.each(ctx, running, func(ctx context.Context, n *Node) error {
		v, err := n.look(ctx)
		mu.Lock()
		defer mu.Unlock()
		views[n] = v
		return err
	})
	return views, err
}

// view is how one node sees its cluster.
type view struct {
	members map[string]member // by node ID
	ok      bool              // it answers queries
	linked  bool              // if it is a replica: it has its primary's data
}

// member is a node as another one sees it.
type member struct {
	flags   []string
	primary string // ID; empty for a primary
	slots   []SlotRange
}

// look asks a node for its view.
func (n *Node) look(ctx context.Context) (*view, error) {
	b := n.Client().B()
	replies := n.Client().DoMulti(ctx,
		b.Arbitrary("CLUSTER", "NODES").Build(),
		b.Arbitrary("CLUSTER", "INFO").Build(),
		b.Arbitrary("INFO", "replication").Build())
	texts := make([]string, len(replies))
	for i, reply := range replies {
		var err error
		if texts[i], err = reply.ToString(); err != nil {
			return nil, fmt.Errorf("%s: %w", n.name, err)
		}
	}
	members, err := parseNodes(texts[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n.name, err)
	}
	return &view{
		members: members,
		ok:      strings.Contains(texts[1], "cluster_state:ok"),
		linked:  !strings.Contains(texts[2], "master_link_status:down"),
	}, nil
}

// parseNodes reads the reply to CLUSTER NODES: one node a line, as in
//
//	07c3… 127.0.0.1:30004@31004 slave e7d1… 0 1426238317239 4 connected
//	e7d1… 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 [77->-07c3…]
func parseNodes(text string) (map[string]member, error) {
	members := map[string]member{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf("cluster nodes: %q has %d fields, want at least 8", line, len(fields))
		}
		m := member{flags: strings.Split(fields[2], ",")}
		if fields[3] != "-" {
			m.primary = fields[3]
		}
		for _, served := range fields[8:] {
			if strings.HasPrefix(served, "[") {
				continue // a slot that is migrating or imported
			}
			slots, err := parseSlots(served)
			if err != nil {
				return nil, err
			}
			m.slots = append(m.slots, slots)
		}
		members[fields[0]] = m
	}
	return members, nil
}

func parseSlots(served string) (SlotRange, error) {
	low, high, isRange := strings.Cut(served, "-")
	if !isRange {
		high = low
	}
	first, err := strconv.Atoi(low)
	if err != nil {
		return SlotRange{}, fmt.Errorf("cluster nodes: slots %q: %w", served, err)
	}
	last, err := strconv.Atoi(high)
	if err != nil {
		return SlotRange{}, fmt.Errorf("cluster nodes: slots %q: %w", served, err)
	}
	return SlotRange{first, last}, nil
}
