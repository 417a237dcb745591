package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

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

// healthy says why the running nodes, whose views these are, are not of one mind.
func healthy(views map[*Node]*view) error {
	var first *Node
	for n, v := range views {
		if first == nil {
			first = n
		}
		if err := agree(n, v, views); err != nil {
			return err
		}
		for other := range views {
			if !sameRole(v.members[other.id], views[first].members[other.id]) {
				return fmt.Errorf("%s and %s differ about %s", first.name, n.name, other.name)
			}
		}
	}
	if first == nil {
		return errors.New("no node is running")
	}
	return covered(first, views)
}

// agree says what one node misses in the others, or others in it.
func agree(n *Node, v *view, views map[*Node]*view) error {
	switch {
	case !v.ok:
		return fmt.Errorf("%s: cluster is down", n.name)
	case !v.linked:
		return fmt.Errorf("%s: has not its primary's data", n.name)
	}
	for other := range views {
		seen, known := v.members[other.id]
		if !known {
			return fmt.Errorf("%s does not know %s", n.name, other.name)
		}
		for _, doubt := range []string{"handshake", "fail?", "fail", "noaddr"} {
			if slices.Contains(seen.flags, doubt) {
				return fmt.Errorf("%s sees %s with flag %s", n.name, other.name, doubt)
			}
		}
	}
	return nil
}

func sameRole(a, b member) bool {
	return a.primary == b.primary && slices.Equal(a.slots, b.slots)
}

// covered says which slots no running node serves, in one node's view, and
// whose primary does not run.
func covered(n *Node, views map[*Node]*view) error {
	served, running := 0, map[string]bool{"": true}
	for other := range views {
		running[other.id] = true
		for _, s := range views[n].members[other.id].slots {
			served += s.Last - s.First + 1
		}
	}
	for other := range views {
		if primary := views[n].members[other.id].primary; !running[primary] {
			return fmt.Errorf("%s copies a node that is not running", other.name)
		}
	}
	if served != Slots {
		return fmt.Errorf("%d of %d slots are served", served, Slots)
	}
	return nil
}
