package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/store/rediscluster/redismeter"
)

// storeFlags are the flags that say where the counters are.
type storeFlags struct {
	Store        string `default:"memory" placeholder:"memory|redis://HOST:PORT,..." help:"Where counters are kept: memory, in this process, where another gateway counts on its own; or a Redis Cluster or server that all gateways of a region share: redis://HOST:PORT[,HOST:PORT], rediss:// with TLS (default memory)."`
	StoreUser    string `placeholder:"NAME" help:"ACL user of the store (default: the store's default user)."`
	StoreSecret  string `name:"store-password-file" placeholder:"FILE" help:"File that holds the store's password, read again for each connection, so that it may change (default: none)."`
	StoreCA      string `name:"store-ca" placeholder:"FILE" help:"PEM certificates that the store's is verified against, with rediss:// (default: the system's)."`
	StoreTimeout string `default:"5ms" placeholder:"DURATION" help:"How long a call to the store may take before the rules' fail modes decide, 1ms to 1s (default 5ms)."`

	Region     string `default:"local" placeholder:"NAME" help:"Region whose gateways share the store (default local)."`
	RegionPods string `default:"1" placeholder:"N" help:"Gateways that the region has at least, 1 to 100000: leases and the fallback are sized by the live ones, never by fewer (default 1)."`
	PodID      string `name:"pod-id" placeholder:"NAME" help:"Name of this gateway among the region's (default: the host's name and the process id)."`
	StateDir   string `placeholder:"DIR" help:"Directory where what must outlive a restart is kept: the count of the region's gateways, and the last rules of the rules service (default: nowhere)."`
}

// StoreConfig is a checked configuration of the store; the zero URL is memory.
type StoreConfig struct {
	Redis    rediscluster.Config
	Members  rediscluster.MembersConfig
	CA       string
	Password string // file
}

const (
	storeTimeoutMin = time.Millisecond
	storeTimeoutMax = time.Second

	// storePatience is how long a gateway that starts is not ready because its store
	// has not answered: closed rules would answer 503. A store that is away for longer
	// is an outage, in which the fail modes serve, and is no reason to keep all pods
	// out of service.
	storePatience = time.Second

	passwordMax = 4 << 10 // bytes of the password's file
)

func (f *storeFlags) config(fault faultFunc) StoreConfig {
	cfg := StoreConfig{CA: f.StoreCA, Password: f.StoreSecret}
	timeout, err := time.ParseDuration(f.StoreTimeout)
	if err != nil || timeout < storeTimeoutMin || timeout > storeTimeoutMax {
		fault("store-timeout", f.StoreTimeout, fmt.Sprintf("want a duration of %v to %v", storeTimeoutMin, storeTimeoutMax))
	}
	pods, err := strconv.Atoi(f.RegionPods)
	if err != nil || pods < 1 || pods > 100_000 {
		fault("region-pods", f.RegionPods, "want 1 to 100000")
	}
	if f.Store == "memory" {
		return cfg
	}
	if !strings.HasPrefix(f.Store, "redis://") && !strings.HasPrefix(f.Store, "rediss://") {
		fault("store", withoutUser(f.Store), "want memory, redis://HOST:PORT[,HOST:PORT] or rediss://…")
		return cfg
	}
	cfg.Redis = rediscluster.Config{URL: f.Store, Username: f.StoreUser, Timeout: timeout}
	if err := cfg.Redis.Validate(); err != nil {
		fault("store", withoutUser(f.Store), err.Error())
	}
	cfg.Members = rediscluster.MembersConfig{Region: f.Region, Pod: f.PodID, Least: pods}
	if cfg.Members.Pod == "" {
		host, err := os.Hostname()
		if err != nil {
			fault("pod-id", "", "is missing, and the host has no name: "+err.Error())
		}
		cfg.Members.Pod = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if f.StateDir != "" {
		cfg.Members.File = filepath.Join(f.StateDir, "region-pods")
	}
	return cfg
}

// counters is the store and what the limiter must know of it.
type counters struct {
	store store.Store
	pods  func() int
	local bool          // in this process: a call costs next to nothing
	begun chan struct{} // closed when the store has answered, or has had its time to
}

// ready is why the process should get no requests yet: the store is awaited.
func (c *counters) ready() error {
	select {
	case <-c.begun:
		return nil
	default:
		return errors.New("the counter store has not answered yet")
	}
}

// await waits for the store's first answer, for storePatience at most.
func (c *counters) await(ctx context.Context, reached <-chan struct{}) {
	defer close(c.begun)
	patience := time.NewTimer(storePatience)
	defer patience.Stop()
	select {
	case <-reached:
	case <-patience.C:
	case <-ctx.Done():
	}
}

// openStore makes the store. A server that cannot be reached is an outage, not a
// failure; what cannot be read is a usage error.
func openStore(process *serve.Process, cfg StoreConfig, provider metric.MeterProvider, log *slog.Logger) (*counters, error) {
	if cfg.Redis.URL == "" {
		s, err := memory.New(memory.Config{})
		c := &counters{store: s, pods: func() int { return 1 }, local: true, begun: make(chan struct{})}
		close(c.begun)
		return c, err
	}
	if err := cfg.secrets(); err != nil {
		return nil, serve.Usage(err)
	}
	var members *rediscluster.Members
	meter, err := redismeter.New(provider, func() int { return members.Count() })
	if err != nil {
		return nil, err
	}
	cfg.Redis.Observer, cfg.Redis.Logger = meter, log
	s, err := rediscluster.New(cfg.Redis)
	if err != nil {
		return nil, serve.Usage(fmt.Errorf("--store: %w", err))
	}
	process.OnClose("store", func(context.Context) error { s.Close(); return nil })
	if members, err = rediscluster.NewMembers(s, cfg.Members); err != nil {
		return nil, serve.Usage(err)
	}
	process.Go("members", func(ctx context.Context) error { members.Run(ctx); return nil })
	c := &counters{store: s, pods: members.Count, begun: make(chan struct{})}
	process.Go("first answer of the store", func(ctx context.Context) error { c.await(ctx, s.Reached()); return nil })
	return c, nil
}

// secrets reads the files that the flags name; the password's again whenever the
// store is signed in to.
func (cfg *StoreConfig) secrets() error {
	if cfg.Password != "" {
		cfg.Redis.Password = passwordFrom(cfg.Password)
		if _, err := cfg.Redis.Password(); err != nil {
			return fmt.Errorf("--store-password-file: %w", err)
		}
	}
	if cfg.CA == "" {
		return nil
	}
	text, err := os.ReadFile(cfg.CA)
	if err != nil {
		return fmt.Errorf("--store-ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return errors.New("--store-ca: no PEM certificate in " + cfg.CA)
	}
	cfg.Redis.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return nil
}

// passwordFrom reads a password from a file each time that it is asked.
func passwordFrom(file string) func() (string, error) {
	return func() (string, error) {
		text, err := filewatch.Read(file, passwordMax)
		if err != nil {
			return "", err
		}
		password := strings.TrimRight(string(text), "\r\n")
		if password == "" {
			return "", fmt.Errorf("%s is empty", file)
		}
		return password, nil
	}
}
