package testenv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// views asks each running node for its view of the cluster.
func (c *RedisCluster) views(ctx context.Context) (map[*Node]*view, error) {
	running := c.running()
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
