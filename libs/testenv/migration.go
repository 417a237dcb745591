package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// migrateTimeout is how long one MIGRATE may wait for the other node, in ms.
const migrateTimeout = "5000"

// migrateBatch is how many keys Finish moves at a time; the source answers
// nobody meanwhile.
const migrateBatch = 100

// Migration is a slot on its way from one primary to another. In between, the
// source answers for keys that it still has and sends clients on (ASK) for the
// others; a command with keys on both sides gets TRYAGAIN.
type Migration struct {
	cluster  *RedisCluster
	slot     int
	from, to *Node
}

// Migrate begins to move a slot to another primary: it is migrating then, and no
// key has moved.
func (c *RedisCluster) Migrate(ctx context.Context, slot int, to *Node) (*Migration, error) {
	from, err := c.PrimaryOf(ctx, slot)
	if err != nil {
		return nil, err
	}
	if from == to {
		return nil, fmt.Errorf("migrate slot %d: %s serves it already", slot, to.name)
	}
	m := &Migration{cluster: c, slot: slot, from: from, to: to}
	// In this order: a source that is migrating sends clients on at once.
	if err := m.set(ctx, to, "IMPORTING", from.id); err != nil {
		return nil, err
	}
	if err := m.set(ctx, from, "MIGRATING", to.id); err != nil {
		return nil, errors.Join(err, m.set(ctx, to, "STABLE"))
	}
	return m, nil
}

func (m *Migration) set(ctx context.Context, n *Node, state ...string) error {
	return n.order(ctx, slices.Concat([]string{"CLUSTER", "SETSLOT", strconv.Itoa(m.slot)}, state)...)
}

// MoveKeys moves at most so many keys of the slot and returns how many it found
// to move: fewer than atMost means that none is left.
func (m *Migration) MoveKeys(ctx context.Context, atMost int) (int, error) {
	keys, err := m.from.Do(ctx, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.slot), strconv.Itoa(atMost)).AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("%s: keys of slot %d: %w", m.from.name, m.slot, err)
	}
	if len(keys) == 0 {
		return 0, nil
	}
	admin := m.cluster.admin
	command := slices.Concat([]string{
		"MIGRATE", m.cluster.cfg.Address, strconv.Itoa(m.to.port.Number()), "", "0", migrateTimeout,
		"REPLACE", "AUTH2", admin.Name, admin.Password, "KEYS",
	}, keys)
	if err := m.from.Do(ctx, command...).Error(); err != nil { // keys that have expired meanwhile are none
		return 0, fmt.Errorf("%s: migrate %d keys of slot %d: %w", m.from.name, len(keys), m.slot, err)
	}
	return len(keys), nil
}

// Finish moves the keys that are left and gives the slot to its new primary. All
// running nodes know it when Finish returns.
func (m *Migration) Finish(ctx context.Context) error {
	for {
		moved, err := m.MoveKeys(ctx, migrateBatch)
		if err != nil {
			return err
		}
		if moved < migrateBatch {
			break
		}
	}
	// The new one first: from then on it answers for what the old one sends on.
	for _, n := range []*Node{m.to, m.from} {
		if err := m.set(ctx, n, "NODE", m.to.id); err != nil {
			return err
		}
	}
	return until(ctx, func(ctx context.Context) error {
		views, err := m.cluster.views(ctx)
		if err != nil {
			return err
		}
		for n, v := range views {
			if !serves(v.members[m.to.id].slots, m.slot) {
				return fmt.Errorf("%s does not know that slot %d has moved", n.name, m.slot)
			}
		}
		return nil
	})
}
