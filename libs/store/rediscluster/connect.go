package rediscluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

const (
	connectTimeout = time.Second // of a connection that is made
	connectPause   = time.Second // between attempts to reach a store that is absent
)

// option turns the configuration into the client's.
func (cfg *Config) option() (rueidis.ClientOption, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("redis URL: %w", errors.Unwrap(err)) // without the URL: it may hold a secret
	}
	if _, secret := u.User.Password(); secret {
		return rueidis.ClientOption{}, errors.New("redis URL holds a password: give it by file or environment")
	}
	if u.Scheme != "redis" && u.Scheme != "rediss" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return rueidis.ClientOption{}, fmt.Errorf("redis URL %q: want redis://HOST:PORT[,HOST:PORT] or rediss://…", cfg.URL)
	}
	option := rueidis.ClientOption{
		InitAddress: strings.Split(u.Host, ","), ShuffleInit: true, ClientName: "shiplane-limits",
		DisableCache: true, DisableRetry: true,
		// A deadline that fires must not close the connection under the other calls.
		AlwaysPipelining: true,
		ConnWriteTimeout: connectTimeout,
		// One connection a node: more make smaller writes, and those but the first are
		// made, and signed in, only when a caller waits for them.
		PipelineMultiplex: -1,
		ClusterOption:     rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
	}
	option.AuthCredentialsFn = cfg.signIn(cmp.Or(cfg.Username, u.User.Username()))
	option.Dialer.Timeout = connectTimeout
	if u.Scheme == "rediss" {
		if option.TLSConfig = cfg.TLS; cfg.TLS == nil {
			option.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
	}
	return option, nil
}

// signIn is what the client asks before each connection that it makes.
func (cfg *Config) signIn(username string) func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
	password := cfg.Password
	return func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		as := rueidis.AuthCredentials{Username: username}
		if password == nil {
			return as, nil
		}
		var err error
		if as.Password, err = password(); err != nil {
			return as, fmt.Errorf("%w: %w", errPassword, err)
		}
		return as, nil
	}
}

// connect makes the client, however long it takes, and another one where a
// standalone server has become a replica: its name may be another server's by now.
func (s *Store) connect(option rueidis.ClientOption) {
	addresses := option.InitAddress
	for logged := false; ; {
		option.InitAddress = slices.Clone(addresses) // which the client shuffles, and one that failed may be reading yet
		client, err := rueidis.NewClient(option)
		if err == nil {
			s.follow(client, addresses)
			client.Close()
		} else if !logged {
			s.cfg.Logger.Error("the counter store cannot be reached; fail modes decide until it can", "addresses", addresses, "error", err)
		}
		logged = err != nil
		if !s.sleep(time.Duration(float64(connectPause) * (0.5 + rand.Float64()))) {
			return
		}
	}
}

// follow reads the topology until the store is closed, or until a standalone server
// is none to write to any more. Calls begin after the first look: a node that hangs
// then is the matter of its own shard.
func (s *Store) follow(client rueidis.Client, addresses []string) {
	now := func() time.Duration { return time.Since(s.start) }
	for first, logged := true, false; ; first = false {
		err := s.shards.refresh(s.ctx, client, now)
		if first {
			s.client.Store(&client)
			s.cfg.Logger.Info("connected to the counter store", "addresses", addresses)
		}
		if standalone(err) {
			s.wasReached()
			select {
			case <-s.demoted:
			case <-s.ctx.Done():
			}
			return
		}
		pace := s.shards.pace()
		if err != nil {
			pace = topologyHurry
			if !logged {
				s.cfg.Logger.Warn("the cluster's topology cannot be read", "error", err)
			}
		}
		if first || pace == topologyEvery {
			s.done.Go(func() { s.warm(client); s.wasReached() })
		}
		logged = err != nil
		if !s.sleep(pace) {
			return
		}
	}
}

// warm sees to a connection to each node, replicas too, so that the first call
// after a start, or after one of them takes over, need not wait for one.
func (s *Store) warm(client rueidis.Client) {
	ctx, cancel := context.WithTimeout(s.ctx, connectTimeout)
	defer cancel()
	var nodes sync.WaitGroup
	for _, node := range client.Nodes() {
		nodes.Go(func() {
			_ = node.Do(ctx, node.B().Ping().Build()) // whether it answers is for the breakers to find out
		})
	}
	nodes.Wait()
}

// Reached is closed when the store has answered for the first time and each of its
// nodes has a connection, or has had its time to make one: calls need wait for
// none. It stays open while nothing answers.
func (s *Store) Reached() <-chan struct{} { return s.reached }

func (s *Store) wasReached() { s.first.Do(func() { close(s.reached) }) }

// standalone reports whether a server has said that it is in no cluster.
func standalone(err error) bool {
	var said *rueidis.RedisError
	return errors.As(err, &said) && strings.Contains(said.Error(), "cluster support disabled")
}

// sleep waits and reports whether the store still is open.
func (s *Store) sleep(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}
