// Package envtest ties the servers of package testenv to a test: they are there
// when the test begins, and gone when it ends. After a failure the test prints
// the end of their logs, and keeps their folder.
package envtest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/process"
)

const (
	// startTimeout bounds a start on a machine that is busy with other tests.
	startTimeout = time.Minute
	// logLines and logsMax bound what a failure prints.
	logLines = 30
	logsMax  = 12
)

// Redis starts a standalone server for t. The test fails if it does not start.
func Redis(t testing.TB, cfg testenv.RedisConfig) *testenv.Redis {
	t.Helper()
	cfg.Dir = folder(t, cfg.Dir, "redis")
	return start(t, cfg.Dir, func(ctx context.Context) (*testenv.Redis, error) { return testenv.StartRedis(ctx, cfg) })
}

// RedisCluster starts a cluster for t. The test fails if it does not start.
func RedisCluster(t testing.TB, cfg testenv.RedisClusterConfig) *testenv.RedisCluster {
	t.Helper()
	cfg.Dir = folder(t, cfg.Dir, "cluster")
	return start(t, cfg.Dir, func(ctx context.Context) (*testenv.RedisCluster, error) {
		return testenv.StartRedisCluster(ctx, cfg)
	})
}

// Postgres starts a server for t. The test fails if it does not start.
func Postgres(t testing.TB, cfg testenv.PostgresConfig) *testenv.Postgres {
	t.Helper()
	cfg.Dir = folder(t, cfg.Dir, "postgres")
	return start(t, cfg.Dir, func(ctx context.Context) (*testenv.Postgres, error) {
		return testenv.StartPostgres(ctx, cfg)
	})
}

// folder makes a folder for servers, to be removed unless the test has failed.
// It is not t's, which would be.
func folder(t testing.TB, given, kind string) string {
	t.Helper()
	if given != "" {
		return given
	}
	dir, err := os.MkdirTemp("", "shiplane-"+kind+"-") //nolint:usetesting // t.TempDir is removed after a failure too
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept: %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// start ends what it starts with the test.
func start[S io.Closer](t testing.TB, dir string, starting func(context.Context) (S, error)) S {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := starting(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			printLogs(t, dir)
		}
	})
	return s
}

// printLogs shows how the logs under dir end.
func printLogs(t testing.TB, dir string) {
	t.Helper()
	var logs []string
	for _, pattern := range []string{"*.log", "*/*.log"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Error(err)
		}
		logs = append(logs, found...)
	}
	if len(logs) > logsMax {
		t.Logf("the first %d of %d logs:", logsMax, len(logs))
		logs = logs[:logsMax]
	}
	for _, log := range logs {
		t.Logf("the end of %s:\n\t%s", log, strings.ReplaceAll(process.Tail(log, logLines), "\n", "\n\t"))
	}
}
