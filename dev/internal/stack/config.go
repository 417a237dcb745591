package stack

import (
	"fmt"
	"time"
)

// Bounds of a stack.
const (
	RegionsMax  = 9   // a byte of an address, and a machine's worth of servers
	GatewaysMax = 100 // of a region
	NetworkMax  = 255
	ShiftMax    = 50_000 // of ports
)

// Config says what is started.
type Config struct {
	Dir      string   // empty, and this stack's alone; Postgres' user must be able to enter it
	Programs string   // folder of the services
	Upstream []string // the command of the API behind the gateways, to which its --listen is added

	Regions  []string // the first is the home region
	Gateways int      // in each region
	Shards   int      // primaries of each region
	Replicas int      // of each primary

	NodeTimeout  time.Duration // of the Redis Clusters
	StoreTimeout time.Duration // of a call of a gateway or checker
	RolloutBake  time.Duration // of a guarded edit, in each stage
	TLS          bool          // to Redis, with ACL users, and to the rules service

	RulesFile, KeysFile string // absolute paths

	Network   int // second byte of all addresses: 127.Network.REGION.x
	PortShift int // added to each port of a service
}

// Ports of the services, before they are shifted: each pod has an address of its
// own, so that all have the same.
const (
	gatewayPort     = 8080
	checkerPort     = 8081
	rulesPort       = 8082
	checkerGRPCPort = 8085
	upstreamPort    = 8090
	adminAbove      = 1000 // what a service's admin port is above its own
)

// gatewayHost is the last byte of the address of the gateway before the first one;
// what is one a region, Redis too, is at the byte sharedHost.
const (
	sharedHost  = 1
	gatewayHost = 10
)

// host is an address of a region, which count from 0.
func (c *Config) host(region, last int) string {
	return fmt.Sprintf("127.%d.%d.%d", c.Network, region+1, last)
}

// at is the address of a service and that of its admin port.
func (c *Config) at(host string, port int) (api, admin string) {
	port += c.PortShift
	return fmt.Sprintf("%s:%d", host, port), fmt.Sprintf("%s:%d", host, port+adminAbove)
}

// pods is how many processes of a region share its counters.
func (c *Config) pods() int { return c.Gateways + 1 }
