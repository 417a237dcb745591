package gateway

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/filewatch"
)

// observeFlags are the flags that say what is told of requests.
type observeFlags struct {
	AccessLogSample string `default:"0" placeholder:"SHARE" help:"Share of admitted requests to log, 0 to 1. Refusals and failures are always logged, up to 10 a second (default 0)."`
	LogHashKeyFile  string `placeholder:"FILE" help:"File with at least 16 bytes that key the hashes of callers in the log, so that all gateways name a caller alike (default: a random key, so that hashes change with each start)."`
}

// ObserveConfig is a checked configuration of what is told of requests.
type ObserveConfig struct {
	Sample  float64
	HashKey string // path; "" for a random key
}

// Bounds of the key of hashes, in bytes.
const (
	hashKeyMin = 16
	hashKeyMax = 4 << 10
)

func (f *observeFlags) config(faults *command.Faults) ObserveConfig {
	return ObserveConfig{Sample: faults.Share("access-log-sample", f.AccessLogSample), HashKey: f.LogHashKeyFile}
}

// key returns the key of callers' hashes.
func (cfg *ObserveConfig) key() ([]byte, error) {
	if cfg.HashKey == "" {
		return []byte(rand.Text()), nil
	}
	content, err := filewatch.Read(cfg.HashKey, hashKeyMax)
	if err != nil {
		return nil, fmt.Errorf("--log-hash-key-file: %w", err)
	}
	key := strings.TrimRight(string(content), "\r\n")
	if len(key) < hashKeyMin {
		return nil, fmt.Errorf("--log-hash-key-file: %s has %d bytes: want %d to %d", cfg.HashKey, len(key), hashKeyMin, hashKeyMax)
	}
	return []byte(key), nil
}
