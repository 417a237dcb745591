package dev

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/limit"
)

// upCommand is the command line of up as text: config reads it in one go, so that
// all that is wrong is said at once.
type upCommand struct {
	Detach   bool `env:"-" short:"d" help:"Return once all is ready, and let it run behind."`
	Detached bool `env:"-" hidden:"" help:"This process is the one behind."`

	Regions  string `default:"us-east,eu-west,ap-south" placeholder:"NAME,..." help:"Regions, 1 to 9; the first is home to the rules (default us-east,eu-west,ap-south)."`
	Gateways string `default:"3" placeholder:"N" help:"Gateways of each region, 1 to 100 (default 3)."`
	Shards   string `default:"3" placeholder:"N" help:"Redis primaries of each region, 1 to 64; with fewer than 3 nothing takes over from a dead one (default 3)."`
	Replicas string `default:"1" placeholder:"N" help:"Replicas of each primary, 0 to 5 (default 1)."`

	NodeTimeout  string `default:"3s" placeholder:"DURATION" help:"How long a Redis server is missed before a replica takes over, 500ms to 1m; 15s in production (default 3s)."`
	StoreTimeout string `default:"5ms" placeholder:"DURATION" help:"How long a call to Redis may take before fail modes decide, 1ms to 1s; more on a machine that is busy (default 5ms)."`
	RolloutBake  string `default:"10s" placeholder:"DURATION" help:"How long a guarded edit stays in each stage, 1s to 24h; 1m in production (default 10s)."`
	TLS          bool   `name:"tls" help:"Encrypt what pods say to Redis and to the rules service; Redis then knows them by an ACL user and a password."`

	Rules string `default:"gateway/internal/demo/rules.yaml" placeholder:"FILE" help:"Rule file that the rules service starts with (default: the demo's, in the source tree)."`
	Keys  string `default:"gateway/internal/demo/keys.yaml" placeholder:"FILE" help:"Key file of the gateways (default: the demo's, in the source tree)."`
	Bin   string `placeholder:"DIR" help:"Folder of the programs gateway, checker and rules (default: that of this one)."`

	Network   string `default:"0" placeholder:"N" help:"Second byte of all addresses, 0 to 255: region 1 is at 127.N.1.x. For a second system beside the first (default 0)."`
	PortShift string `default:"0" placeholder:"N" help:"Added to all ports, 0 to 50000, where 8080 and the others are taken (default 0)."`
}

// Help is shown by dev up --help.
func (*upCommand) Help() string {
	return `Gateway i of region r is at 127.N.r.1i:8080 as a pod of its own is, the checker
at 127.N.r.1:8081 (gRPC 8085), the rules service at 127.N.1.1:8082; admin ports
are 1000 above. Durations are written as 500ms, 30s or 2m.`
}

// Bounds of flags that testenv or the services bound as well; here they are told
// together, and by the names of these flags.
const (
	shardsMax       = 64
	replicasMax     = 5
	nodeTimeoutMin  = 500 * time.Millisecond
	nodeTimeoutMax  = time.Minute
	storeTimeoutMin = time.Millisecond
	storeTimeoutMax = time.Second
	bakeMin         = time.Second
	bakeMax         = 24 * time.Hour
)

// config checks the flags; the error names every fault.
func (c *upCommand) config(dir string) (stack.Config, error) {
	var faults command.Faults
	number := func(flag, text string, least, most int64) int { return int(faults.Int(flag, text, least, most)) }
	cfg := stack.Config{
		Dir: dir, Regions: strings.Split(c.Regions, ","), TLS: c.TLS,
		Gateways:     number("gateways", c.Gateways, 1, stack.GatewaysMax),
		Shards:       number("shards", c.Shards, 1, shardsMax),
		Replicas:     number("replicas", c.Replicas, 0, replicasMax),
		Network:      number("network", c.Network, 0, stack.NetworkMax),
		PortShift:    number("port-shift", c.PortShift, 0, stack.ShiftMax),
		NodeTimeout:  faults.Duration("node-timeout", c.NodeTimeout, nodeTimeoutMin, nodeTimeoutMax),
		StoreTimeout: faults.Duration("store-timeout", c.StoreTimeout, storeTimeoutMin, storeTimeoutMax),
		RolloutBake:  faults.Duration("rollout-bake", c.RolloutBake, bakeMin, bakeMax),
		RulesFile:    file(&faults, "rules", c.Rules), KeysFile: file(&faults, "keys", c.Keys),
	}
	names := map[string]bool{}
	for _, name := range cfg.Regions {
		if err := limit.ValidateName("region", name); err != nil || names[name] {
			faults.Add("regions", c.Regions, fmt.Sprintf("region %q: want a name of a-z, 0-9, '-', '_' and '.', once", name))
		}
		names[name] = true
	}
	if len(cfg.Regions) > stack.RegionsMax {
		faults.Add("regions", c.Regions, fmt.Sprintf("want 1 to %d", stack.RegionsMax))
	}
	self, err := os.Executable()
	faults.AddError("bin", err)
	cfg.Upstream = []string{self, "upstream"}
	if cfg.Programs = c.Bin; c.Bin == "" {
		cfg.Programs = filepath.Dir(self)
	}
	c.programs(&cfg, &faults)
	return cfg, faults.Err()
}

// programs checks that all that is to be started is there.
func (c *upCommand) programs(cfg *stack.Config, faults *command.Faults) {
	var err error
	if cfg.Programs, err = filepath.Abs(cfg.Programs); err != nil {
		faults.AddError("bin", err)
	}
	for _, name := range slices.Sorted(slices.Values([]string{stack.KindGateway, stack.KindChecker, stack.KindRules})) {
		if _, err := exec.LookPath(filepath.Join(cfg.Programs, name)); err != nil {
			faults.Add("bin", c.Bin, fmt.Sprintf("%v: make dev builds it", err))
		}
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		faults.Add("shards", c.Shards, "redis-server is not installed: make dev does")
	}
}

// file returns the absolute path of a file that is there.
func file(faults *command.Faults, flag, path string) string {
	absolute, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(absolute)
	}
	if err != nil {
		faults.Add(flag, path, fmt.Sprintf("%v: run dev in the source tree, or give a file", err))
	}
	return absolute
}
