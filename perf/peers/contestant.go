package peers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Rules that all services have, each a number of requests a second and account.
const (
	ample  = "ample"  // is never reached
	wide   = "wide"   // nor is this
	scarce = "scarce" // is reached at once
)

// rates are the rules', a second. In the checker they are the burst, too, and in
// the others the count of a window of a second.
var rates = map[string]int{ample: 1_000_000, wide: 1_000_000, scarce: 10}

// contestant is a service and how it is asked.
type contestant struct {
	name string
	*service
	protocol
}

// fleet is all the services that are compared, on one Redis.
type fleet struct {
	checker, ratelimit, cached, gubernator *service
}

func (f *fleet) all() []*service {
	return []*service{f.checker, f.ratelimit, f.cached, f.gubernator}
}

// start starts the services; those that it has started when it fails are in the fleet.
func (f *fleet) start(ctx context.Context, c *command, dir, redis string) (err error) {
	if f.checker, err = startChecker(ctx, c, dir, redis); err != nil {
		return err
	}
	if f.ratelimit, err = startRatelimit(ctx, c, dir, redis, "ratelimit", 0); err != nil {
		return err
	}
	const cacheBytes = 16 << 20
	if f.cached, err = startRatelimit(ctx, c, dir, redis, "ratelimit-cached", cacheBytes); err != nil {
		return err
	}
	f.gubernator, err = startService(ctx, dir, "gubernator", []string{c.Gubernator}, []string{
		"GUBER_GRPC_ADDRESS={grpc}", "GUBER_HTTP_ADDRESS={http}", "GUBER_ADVERTISE_ADDRESS={grpc}", "GUBER_MEMBERLIST_ADDRESS={admin}", "GUBER_MEMBERLIST_BIND_ADDRESS={admin}", "GUBER_MEMBERLIST_KNOWN_NODES={admin}",
		fmt.Sprintf("GUBER_CACHE_SIZE=%d", 4*c.Keys), // fewer than there are keys would be a limit forgotten and begun anew
	})
	return err
}

func startChecker(ctx context.Context, c *command, dir, redis string) (*service, error) {
	var rules strings.Builder
	fmt.Fprintf(&rules, "domain: %s\nrules:\n", domain)
	for _, id := range [...]string{ample, wide, scarce} {
		fmt.Fprintf(&rules, "  - {id: %s, scope: all, identity: api_key, algorithm: token_bucket, rate: %d/s, burst: %d, fail_mode: closed}\n", id, rates[id], rates[id])
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		return nil, err
	}
	return startService(ctx, dir, "checker", []string{
		c.Checker, "--listen={http}", "--grpc-listen={grpc}", "--admin={admin}", "--rules=" + file, "--store=redis://" + redis,
		"--store-timeout=1s", // the others wait for Redis for longer still
	}, nil)
}

// startRatelimit starts envoyproxy/ratelimit with its defaults, but for where it
// listens and its statistics, which it would send by UDP to nobody.
func startRatelimit(ctx context.Context, c *command, dir, redis, name string, cacheBytes int) (*service, error) {
	var rules strings.Builder
	fmt.Fprintf(&rules, "domain: %s\ndescriptors:\n", domain)
	for _, id := range [...]string{ample, wide, scarce} {
		fmt.Fprintf(&rules, "  - key: rule\n    value: %s\n    descriptors:\n      - key: account\n        rate_limit: {unit: second, requests_per_unit: %d}\n", id, rates[id])
	}
	folder := filepath.Join(dir, name, "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "peers.yaml"), []byte(rules.String()), 0o600); err != nil {
		return nil, err
	}
	return startService(ctx, dir, name, []string{c.Ratelimit}, []string{
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1", "PORT={http-port}", "GRPC_PORT={grpc-port}", "DEBUG_PORT={admin-port}",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis, fmt.Sprintf("REDIS_POOL_SIZE=%d", c.RedisPool), "USE_STATSD=false", "DISABLE_STATS=true",
		fmt.Sprintf("REDIS_PIPELINE_WINDOW=%v", c.PipelineWindow), fmt.Sprintf("REDIS_PIPELINE_LIMIT=%d", c.PipelineLimit),
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=" + name, "RUNTIME_WATCH_ROOT=false", fmt.Sprintf("LOCAL_CACHE_SIZE_IN_BYTES=%d", cacheBytes),
	})
}
