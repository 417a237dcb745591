package stack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/testenv"
)

// Status is how a stack is at one moment.
type Status struct {
	PID      int            `json:"pid"`
	Since    time.Time      `json:"since"`
	Took     time.Duration  `json:"took"` // the start; 0 while it has not ended
	Dir      string         `json:"dir"`
	RulesURL string         `json:"rules_url"`
	Regions  []RegionStatus `json:"regions"`
	Parts    []PartStatus   `json:"parts"`
}

// RegionStatus is a region's Redis Cluster as its servers see it.
type RegionStatus struct {
	Name        string   `json:"name"`
	Gateways    []string `json:"gateways"` // HOST:PORT
	Partitioned bool     `json:"partitioned,omitempty"`
	Slots       int      `json:"slots"` // that a running primary serves, of testenv.Slots
	Shards      []Shard  `json:"shards"`
	Fault       string   `json:"fault,omitempty"` // why its servers could not be asked
}

// Shard is a running primary with its running replicas.
type Shard struct {
	Slots    string   `json:"slots"`
	Primary  string   `json:"primary"`
	Replicas []string `json:"replicas"`
}

// PartStatus is a process.
type PartStatus struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Region  string `json:"region,omitempty"`
	State   State  `json:"state"`
	PID     int    `json:"pid"`
	Memory  int64  `json:"memory"` // resident bytes, 0 if it is dead
	Address string `json:"address"`
	Admin   string `json:"admin,omitempty"`
	Log     string `json:"log"`

	// Of a service that answers; what it does not tell is absent.
	Revision *int64            `json:"revision,omitempty"` // of its rules
	Pods     *int64            `json:"pods,omitempty"`     // that it knows in its region
	Breakers map[string]string `json:"breakers,omitempty"` // by shard: closed, open or probing
}

// statusTimeout bounds what the servers and services may take to answer.
const statusTimeout = 2 * time.Second

// Status looks at everything. What does not answer is told as such.
func (s *Stack) Status(ctx context.Context) Status {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	parts := s.all()
	status := Status{
		PID: os.Getpid(), Since: s.begun, Dir: s.cfg.Dir, RulesURL: s.cfg.RulesURL(),
		Regions: make([]RegionStatus, len(s.regions)), Parts: make([]PartStatus, len(parts)),
	}
	s.mu.Lock()
	status.Took = s.ready
	s.mu.Unlock()
	var asking sync.WaitGroup
	for i, r := range s.regions {
		asking.Go(func() { status.Regions[i] = s.regionStatus(ctx, r) })
	}
	for i, p := range parts {
		asking.Go(func() {
			status.Parts[i] = p.status()
			status.Parts[i].Memory = memoryOf(&status.Parts[i])
			s.scrape(ctx, &status.Parts[i])
		})
	}
	asking.Wait()
	slices.SortFunc(status.Parts, func(a, b PartStatus) int {
		return cmp.Or(s.order(&a)-s.order(&b), strings.Compare(a.Name, b.Name))
	})
	return status
}

// order sorts parts: what all stand on first, then region by region, services first.
func (s *Stack) order(p *PartStatus) int {
	kinds := []string{KindPostgres, KindRules, KindUpstream, KindChecker, KindGateway, KindRedis}
	kind := slices.Index(kinds, p.Kind)
	if kind < slices.Index(kinds, KindChecker) {
		return kind
	}
	return len(kinds)*(1+slices.Index(s.cfg.Regions, p.Region)) + kind
}

func (s *Stack) regionStatus(ctx context.Context, r *region) RegionStatus {
	status := RegionStatus{Name: r.name, Partitioned: r.cut.Load()}
	for i := range s.cfg.Gateways {
		api, _ := s.cfg.at(s.cfg.host(r.number, gatewayHost+i+1), gatewayPort)
		status.Gateways = append(status.Gateways, api)
	}
	cluster, err := r.cluster()
	if err != nil {
		status.Fault = errStarting.Error()
		return status
	}
	roles, err := cluster.Topology(ctx)
	if err != nil {
		status.Fault = err.Error()
		return status
	}
	shards := map[*testenv.Node]*Shard{}
	first := map[*testenv.Node]int{}
	for _, role := range roles {
		if len(role.Slots) == 0 {
			continue
		}
		shard := &Shard{Primary: r.nameOf(role.Node)}
		for _, slots := range role.Slots {
			shard.Slots = strings.TrimPrefix(fmt.Sprintf("%s,%d-%d", shard.Slots, slots.First, slots.Last), ",")
			status.Slots += slots.Last - slots.First + 1
		}
		shards[role.Node], first[role.Node] = shard, role.Slots[0].First
	}
	for _, role := range roles {
		if shard := shards[role.Primary]; shard != nil {
			shard.Replicas = append(shard.Replicas, r.nameOf(role.Node))
		}
	}
	for _, n := range slices.SortedFunc(maps.Keys(shards), func(a, b *testenv.Node) int { return first[a] - first[b] }) {
		status.Shards = append(status.Shards, *shards[n])
	}
	return status
}

// memoryOf is what a process has in memory, without its children.
func memoryOf(p *PartStatus) int64 {
	if p.State == Dead {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID))
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
