package counters

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/store/members"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/store/remote"
)

// StoreFlags are the flags that say where the counters are, and who shares them.
type StoreFlags struct {
	Store        string `default:"memory" placeholder:"memory|redis://HOST:PORT,..." help:"Where counters are kept: memory, in this process, where another process counts on its own; or a Redis Cluster or server that all of a region share: redis://HOST:PORT[,HOST:PORT], rediss:// with TLS (default memory)."`
	StoreUser    string `placeholder:"NAME" help:"ACL user of the store (default: the store's default user)."`
	StoreSecret  string `name:"store-password-file" placeholder:"FILE" help:"File that holds the store's password, read again for each connection, so that it may change (default: none)."`
	StoreIAM     string `name:"store-iam" placeholder:"CLUSTER" help:"Name of the ElastiCache cluster that --store-user signs in to by the AWS credentials of this process, in the place of a password (default: none)."`
	StoreCA      string `name:"store-ca" placeholder:"FILE" help:"PEM certificates that the store's is verified against, with rediss:// (default: the system's)."`
	StoreTimeout string `default:"5ms" placeholder:"DURATION" help:"How long a call to the store may take before the rules' fail modes decide, 1ms to 1s (default 5ms)."`

	Region     string `default:"local" placeholder:"NAME" help:"Region whose pods (gateways and checkers) share the store (default local)."`
	RegionPods string `default:"1" placeholder:"N" help:"Pods that the region has at least, 1 to 100000: leases and the fallback are sized by the live ones, never by fewer (default 1)."`
	PodID      string `name:"pod-id" placeholder:"NAME" help:"Name of this pod among the region's (default: the host's name and the process id)."`
	StateDir   string `placeholder:"DIR" help:"Directory where what must outlive a restart is kept: the count of the region's pods, and the last rules of the rules service (default: nowhere)."`
}

// Config is a checked configuration of where the counters are: at checkers or in Redis,
// by whose URLs there are, or else in this process's memory.
type Config struct {
	Redis    rediscluster.Config
	Region   string
	CA       string
	Password string // file
	IAM      string // ElastiCache cluster that the user signs in to by AWS credentials; "" for none

	Checkers    remote.Config     // without what the files below hold, an observer and a logger
	CheckersTLS command.ClientTLS // towards them
	Token       string            // file

	Members members.Config // without a roster and a logger
}

const memoryStore = "memory" // in this process

// Bounds of flags.
const (
	timeoutMin = time.Millisecond
	timeoutMax = time.Second
	podsMax    = 100_000

	passwordMax = 4 << 10 // bytes of the password's file
)

// Config checks the flags.
func (f *StoreFlags) Config(faults *command.Faults) Config {
	cfg := Config{CA: f.StoreCA, Password: f.StoreSecret, IAM: f.StoreIAM}
	timeout := faults.Duration("store-timeout", f.StoreTimeout, timeoutMin, timeoutMax)
	f.iam(faults)
	cfg.Members.Least = int(faults.Int("region-pods", f.RegionPods, 1, podsMax))
	if f.Store == memoryStore {
		return cfg
	}
	if !strings.HasPrefix(f.Store, "redis://") && !strings.HasPrefix(f.Store, "rediss://") {
		faults.Add("store", command.WithoutUser(f.Store), "want memory, redis://HOST:PORT[,HOST:PORT] or rediss://…")
		return cfg
	}
	cfg.Redis = rediscluster.Config{URL: f.Store, Username: f.StoreUser, Timeout: timeout}
	if err := cfg.Redis.Validate(); err != nil {
		faults.Add("store", command.WithoutUser(f.Store), err.Error())
	}
	cfg.Region = f.Region
	f.member(&cfg.Members, faults)
	return cfg
}

// clusterName is what AWS allows as the name of a replication group.
var clusterName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// iam checks what signing in by AWS credentials needs.
func (f *StoreFlags) iam(faults *command.Faults) {
	switch {
	case f.StoreIAM == "":
	case !clusterName.MatchString(f.StoreIAM):
		faults.Add("store-iam", f.StoreIAM, "want a cluster's name: 1 to 40 of a-z, 0-9 and '-', beginning with a letter")
	case f.StoreSecret != "":
		faults.Add("store-iam", f.StoreIAM, "goes without --store-password-file")
	case f.StoreUser == "":
		faults.Add("store-iam", f.StoreIAM, "needs --store-user")
	case !strings.HasPrefix(f.Store, "rediss://"):
		faults.Add("store-iam", f.StoreIAM, "needs a --store with TLS, rediss://…: a token is a password")
	}
}

// member says who this pod is among those that share the counters.
func (f *StoreFlags) member(cfg *members.Config, faults *command.Faults) {
	if cfg.Pod = f.PodID; cfg.Pod == "" {
		host, err := os.Hostname()
		if err != nil {
			faults.Add("pod-id", "", "is missing, and the host has no name: "+err.Error())
		}
		cfg.Pod = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	if f.StateDir != "" {
		cfg.File = filepath.Join(f.StateDir, "region-pods")
	}
}

// PodName is the name that this pod reports by: the same after a restart where the
// host has one, as a pod of a StatefulSet has.
func (f *StoreFlags) PodName() string {
	if f.PodID != "" {
		return f.PodID
	}
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// Secrets reads the files that the flags name; the password's again whenever the
// store is signed in to.
func (cfg *Config) Secrets() error {
	if cfg.Password != "" {
		cfg.Redis.Password = passwordFrom(cfg.Password)
		if _, err := cfg.Redis.Password(); err != nil {
			return fmt.Errorf("--store-password-file: %w", err)
		}
	}
	if cfg.IAM != "" {
		user, err := newIAMUser(context.Background(), cfg.IAM, cfg.Redis.Username)
		if err != nil {
			return fmt.Errorf("--store-iam: %w", err)
		}
		cfg.Redis.Password = user.password
	}
	if cfg.CA == "" {
		return nil
	}
	roots, err := command.CertPool(cfg.CA)
	if err != nil {
		return fmt.Errorf("--store-ca: %w", err)
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
