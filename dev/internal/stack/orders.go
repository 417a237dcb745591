package stack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
)

// Order is something to be done to a stack.
type Order struct {
	Verb    Verb   `json:"verb"`
	Name    string `json:"name,omitempty"`    // of a part or a region
	Shard   int    `json:"shard,omitempty"`   // of a region, from 0 on
	Account string `json:"account,omitempty"` // in place of Shard: the one that counts it
}

// Verb is what an order is about.
type Verb string

// The orders. Freeze, Kill and Restart are for a part; Thaw too, or for all if no
// name is given; Partition is for a region, Heal too, or for all.
const (
	Kill        Verb = "kill"
	KillPrimary Verb = "kill-primary"
	Freeze      Verb = "freeze"
	Thaw        Verb = "thaw"
	Restart     Verb = "restart"
	Partition   Verb = "partition"
	Heal        Verb = "heal"
	Down        Verb = "down" // is carried out by who owns the stack
)

// domain is whose accounts Order.Account means: the only one that dev has rules of.
const domain = "public-api"

// Do carries out an order and says what has happened.
func (s *Stack) Do(ctx context.Context, o Order) (said string, err error) {
	s.orders.Lock()
	defer s.orders.Unlock()
	switch o.Verb {
	case KillPrimary:
		return s.killPrimary(ctx, o)
	case Partition:
		return s.partition(o.Name)
	case Heal:
		return s.heal(ctx, o.Name)
	case Thaw:
		if o.Name == "" {
			return s.thawAll()
		}
	case Kill, Freeze, Restart:
	default:
		return "", fmt.Errorf("there is no order %q", o.Verb)
	}
	return s.toPart(ctx, o)
}

func (s *Stack) toPart(ctx context.Context, o Order) (string, error) {
	p, err := s.part(o.Name)
	if err != nil {
		return "", err
	}
	switch o.Verb {
	case Kill:
		p.kill()
		return o.Name + " is dead; dev restart " + o.Name + " starts it again", nil
	case Freeze:
		return o.Name + " is frozen; dev thaw " + o.Name + " lets it go on", named(o.Name, p.freeze())
	case Thaw:
		return o.Name + " goes on", named(o.Name, p.thaw())
	}
	return o.Name + " runs again", named(o.Name, s.restart(ctx, p))
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (s *Stack) restart(ctx context.Context, p part) error {
	err := p.restart(ctx)
	if service, ok := p.(*service); ok && err == nil {
		s.watch(service)
	}
	return err
}

// killPrimary kills the running primary of a shard.
func (s *Stack) killPrimary(ctx context.Context, o Order) (string, error) {
	r, err := s.region(o.Name)
	if err != nil {
		return "", err
	}
	cluster, err := r.cluster()
	if err != nil {
		return "", err
	}
	if o.Shard < 0 || o.Shard >= s.cfg.Shards {
		return "", fmt.Errorf("%s has no shard %d: want 0 to %d", r.name, o.Shard, s.cfg.Shards-1)
	}
	slot := o.Shard * testenv.Slots / s.cfg.Shards
	if o.Account != "" {
		subject, err := limit.NewSubject(domain, limit.Account, o.Account)
		if err != nil {
			return "", err
		}
		slot = cluster.SlotOf(rediscluster.Key(subject))
	}
	primary, err := cluster.PrimaryOf(ctx, slot)
	if err != nil {
		return "", err
	}
	replicas, err := cluster.ReplicasOf(ctx, primary)
	if err != nil {
		return "", err
	}
	primary.Kill()
	if len(replicas) == 0 {
		return fmt.Sprintf("%s is dead, which served slot %d; it had no replica: dev restart %[1]s", r.nameOf(primary), slot), nil
	}
	return fmt.Sprintf("%s is dead, which served slot %d; %s takes over 1 to 2 s after it has been missed for %v (--node-timeout)",
		r.nameOf(primary), slot, r.nameOf(replicas[0]), s.cfg.NodeTimeout), nil
}

func (s *Stack) partition(name string) (string, error) {
	r, err := s.region(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: its pods and its Redis do not reach each other; dev heal %[1]s ends it", name), r.setWire(true)
}

// thawAll thaws what is frozen.
func (s *Stack) thawAll() (string, error) {
	var thawed []string
	for _, p := range s.all() {
		if status := p.status(); status.State == Frozen {
			if err := p.thaw(); err != nil {
				return "", named(status.Name, err)
			}
			thawed = append(thawed, status.Name)
		}
	}
	if len(thawed) == 0 {
		return "nothing was frozen", nil
	}
	return "these go on: " + strings.Join(thawed, ", "), nil
}

// heal undoes every fault of a region, or of all: it ends partitions, thaws what is
// frozen, restarts what is dead and waits until the clusters are whole.
func (s *Stack) heal(ctx context.Context, name string) (string, error) {
	regions := s.regions
	if name != "" {
		r, err := s.region(name)
		if err != nil {
			return "", err
		}
		regions = []*region{r}
	}
	var done []string
	for _, r := range regions {
		if r.cut.Load() {
			done = append(done, r.name+" reaches its Redis")
		}
		if err := r.setWire(false); err != nil {
			return "", err
		}
	}
	for _, p := range s.all() {
		status := p.status()
		if name != "" && status.Region != name {
			continue
		}
		var err error
		switch status.State {
		case Running:
			continue
		case Frozen:
			err = p.thaw()
			done = append(done, status.Name+" goes on")
		case Dead:
			err = s.restart(ctx, p)
			done = append(done, status.Name+" runs again")
		}
		if err != nil {
			return "", named(status.Name, err)
		}
	}
	for _, r := range regions {
		if err := r.redis.WaitHealthy(ctx); err != nil {
			return "", named(r.name, err)
		}
	}
	if len(done) == 0 {
		return "there was nothing to heal", nil
	}
	return strings.Join(done, "; "), nil
}

// errNone says that a name is nobody's.
var errNone = errors.New("no such name")

func (s *Stack) part(name string) (part, error) {
	for _, p := range s.all() {
		if p.status().Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%q: %w: dev status --all has them", name, errNone)
}

func (s *Stack) region(name string) (*region, error) {
	for _, r := range s.regions {
		if r.name == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("region %q: %w: there are %s", name, errNone, strings.Join(s.cfg.Regions, ", "))
}

func (s *Stack) all() []part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[:len(s.parts):len(s.parts)]
}
