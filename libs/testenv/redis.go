package testenv

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// atOnce bounds what is done to servers in parallel.
const atOnce = 16

// Where the nodes of a cluster keep what they know of it.
const (
	memoryFolder = "/dev/shm" // where Linux keeps files in memory
	quickPrefix  = "shiplane-nodes-"
	quickLink    = "nodes" // in the servers' folder, to the one in memory
)

// Redis is one or more redis-servers that were started together. Its methods are
// safe for concurrent use.
type Redis struct {
	cfg   RedisConfig
	dir   string
	quick string // folder of what the nodes know of their cluster
	admin User
	trust *tls.Config // nil without TLS
	nodes []*Node
	close sync.Once
	left  error // what Close could not do
}

// StartRedis starts one standalone server and waits until it answers.
func StartRedis(ctx context.Context, cfg RedisConfig) (*Redis, error) {
	r, err := newRedis(cfg)
	if err != nil {
		return nil, fmt.Errorf("start redis: %w", err)
	}
	if err := r.start(ctx, 1, false, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("start redis: %w", err), r.Close())
	}
	return r, nil
}

// newRedis prepares what all servers share.
func newRedis(cfg RedisConfig) (*Redis, error) {
	if cfg.Address == "" {
		cfg.Address = Loopback
	}
	if len(cfg.Command) == 0 {
		cfg.Command = []string{"redis-server"}
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	dir, err := folder(cfg.Dir, "shiplane-redis-")
	if err != nil {
		return nil, err
	}
	// A node saves each change of what it knows with an fsync, and answers nobody
	// meanwhile: a disk would be all that clusters wait for while they form.
	quick, err := os.MkdirTemp(memoryFolder, quickPrefix)
	if err != nil {
		quick = dir
	} else if err := os.Symlink(quick, filepath.Join(dir, quickLink)); err != nil {
		return nil, errors.Join(err, os.Remove(quick))
	}
	r := &Redis{cfg: cfg, dir: dir, quick: quick, admin: User{Name: adminName, Password: rand.Text()}}
	if cfg.TLS {
		if r.trust, err = Certify(dir, cfg.Address); err != nil {
			return nil, errors.Join(fmt.Errorf("certificates in %s: %w", dir, err), r.Close())
		}
	}
	return r, nil
}

// folder makes dir, or a temporary one, and returns its absolute path.
func folder(dir, prefix string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", prefix)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}

// start starts n servers and waits until each answers.
func (r *Redis) start(ctx context.Context, n int, cluster bool, nodeTimeout time.Duration) error {
	for i := range n {
		node, err := newNode(r, fmt.Sprintf("node-%02d", i), cluster)
		if node != nil {
			r.nodes = append(r.nodes, node)
		}
		if err != nil {
			return err
		}
		conf := redisConf(node, nodeTimeout)
		if err := os.WriteFile(node.conf(), []byte(conf), 0o600); err != nil {
			return err
		}
	}
	return r.each(ctx, r.nodes, func(ctx context.Context, n *Node) error { return n.start(ctx) })
}

// each calls do for some nodes in parallel; the first error ends the others' context.
func (r *Redis) each(ctx context.Context, nodes []*Node, do func(context.Context, *Node) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, n := range nodes {
		group.Go(func() error { return do(ctx, n) })
	}
	return group.Wait()
}

// running returns the nodes that can answer.
func (r *Redis) running() []*Node {
	return slices.DeleteFunc(slices.Clone(r.nodes), func(n *Node) bool { return !n.Running() })
}

// SetUser changes a user's password and rights on all running nodes, or adds
// one. Who has signed in before stays so. It is forgotten by Restart.
func (r *Redis) SetUser(ctx context.Context, u User) error {
	return r.each(ctx, r.running(), func(ctx context.Context, n *Node) error {
		return n.order(ctx, slices.Concat([]string{"ACL", "SETUSER", u.Name, "reset"}, u.rights())...)
	})
}

// Nodes returns the servers, in the order in which they were made: for a cluster
// its first primaries, then their replicas.
func (r *Redis) Nodes() []*Node { return r.nodes }

// Addresses returns where clients reach the servers, as ip:port.
func (r *Redis) Addresses() []string {
	addresses := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		addresses[i] = n.Address()
	}
	return addresses
}

// URL names the servers and their first user:
// redis://user:password@ip:port?addr=ip:port&…, rediss with TLS.
func (r *Redis) URL() string {
	addresses := r.Addresses()
	u := url.URL{Scheme: "redis", Host: addresses[0]}
	if len(addresses) > 1 {
		u.RawQuery = "addr=" + strings.Join(addresses[1:], "&addr=")
	}
	if r.trust != nil {
		u.Scheme = "rediss"
	}
	if len(r.cfg.Users) > 0 {
		u.User = url.UserPassword(r.cfg.Users[0].Name, r.cfg.Users[0].Password)
	}
	return u.String()
}

// TLS returns what a client needs to trust the servers, nil without TLS. It is
// the caller's.
func (r *Redis) TLS() *tls.Config { return r.trust.Clone() }

// CAFile is the path of the authority's certificate (PEM), there with TLS.
func (r *Redis) CAFile() string { return filepath.Join(r.dir, CAFile) }

// Dir is the folder with a folder for each server, and in it its log.
func (r *Redis) Dir() string { return r.dir }

// Logs returns the paths of the servers' logs.
func (r *Redis) Logs() []string {
	logs := make([]string, len(r.nodes))
	for i, n := range r.nodes {
		logs[i] = n.Log()
	}
	return logs
}

// Close kills the servers and removes their temporary folder. Its error is about
// that folder; the servers are gone in any case. A second call does nothing.
func (r *Redis) Close() error {
	r.close.Do(func() {
		var ending sync.WaitGroup
		for _, n := range r.nodes {
			ending.Go(n.end)
		}
		ending.Wait()
		if r.quick != r.dir {
			r.left = errors.Join(os.RemoveAll(r.quick), os.Remove(filepath.Join(r.dir, quickLink)))
		}
		if r.cfg.Dir == "" {
			r.left = errors.Join(r.left, os.RemoveAll(r.dir))
		}
	})
	return r.left
}

// RemoveLeft removes the folder of servers (RedisConfig.Dir) whose owner was killed
// before it could close them, and what of them lies elsewhere. None of them may
// run any more.
func RemoveLeft(dir string) error {
	quick, err := os.Readlink(filepath.Join(dir, quickLink))
	if err == nil && filepath.Dir(quick) == memoryFolder && strings.HasPrefix(filepath.Base(quick), quickPrefix) {
		err = os.RemoveAll(quick)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}
