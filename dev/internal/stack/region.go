package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// errStarting says that a region has no cluster yet.
var errStarting = errors.New("it is starting still")

// region is what lies in one: its Redis Cluster, and the files of its pods.
type region struct {
	name   string
	number int
	redis  *testenv.RedisCluster // nil until formed: see cluster
	secret string                // file with the pods' password, "" without TLS
	formed atomic.Bool
	cut    atomic.Bool
}

// startRedis starts the cluster and waits until it is healthy.
func (r *region) startRedis(ctx context.Context, c *Config) (err error) {
	redis := testenv.RedisConfig{Address: c.host(r.number, sharedHost), Dir: c.file(r.name + "-redis"), Proxied: true, TLS: c.TLS}
	if c.TLS {
		password := rand.Text()
		r.secret = c.file(r.name + "-redis.password")
		if err := os.WriteFile(r.secret, []byte(password+"\n"), 0o600); err != nil {
			return err
		}
		redis.Users = []testenv.User{{Name: podUser, Password: password, Rules: podRights}}
	}
	r.redis, err = testenv.StartRedisCluster(ctx, testenv.RedisClusterConfig{
		RedisConfig: redis, Primaries: c.Shards, Replicas: c.Replicas, NodeTimeout: c.NodeTimeout,
	})
	r.formed.Store(err == nil)
	return err
}

// cluster returns the region's, once it has formed.
func (r *region) cluster() (*testenv.RedisCluster, error) {
	if !r.formed.Load() {
		return nil, fmt.Errorf("%s: %w", r.name, errStarting)
	}
	return r.redis, nil
}

// nodes are the region's servers as parts.
func (r *region) nodes() []part {
	parts := make([]part, 0, len(r.redis.Nodes()))
	for _, n := range r.redis.Nodes() {
		parts = append(parts, node{n, r.nameOf(n), r.name})
	}
	return parts
}

// nameOf is a node's name in the whole system: us-east-redis-00 and on.
func (r *region) nameOf(n *testenv.Node) string {
	return r.name + "-redis-" + strings.TrimPrefix(n.Name(), "node-")
}

// setWire lets everything through between the region's pods and its Redis, or
// nothing: connections stay open. The servers still reach each other on the
// cluster bus, so that none of them is taken for dead.
func (r *region) setWire(cut bool) error {
	cluster, err := r.cluster()
	if err != nil {
		return err
	}
	for _, n := range cluster.Nodes() {
		if err := n.Proxy().Set(tcpproxy.Faults{Silent: cut}); err != nil {
			return err
		}
	}
	r.cut.Store(cut)
	return nil
}

func (r *region) close() {
	if cluster, err := r.cluster(); err == nil {
		cluster.Close() // its error is about files, which the owner of the folder removes
	}
}
