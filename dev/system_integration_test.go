package dev_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/libs/testenv"
)

// patience bounds what happens soon unless it is broken.
const patience = 60 * time.Second

// What the demo's rules give the account of the key demo-free.
const (
	freeRate  = 10 // a second
	freeBurst = 20
)

// A system is small in make test; the largest that docs/dev.md speaks of is checked by
//
//	go test ./dev -run System -args -shards 16 -regions 3
var (
	shards  = flag.Int("shards", 3, "Redis primaries of each region")
	regions = flag.Int("regions", 1, "regions")
)

// system is a system on this machine, driven by its command line.
type system struct {
	t       *testing.T
	bin     string
	dir     string
	network string
}

// programs builds the programs, and returns their folder.
func programs(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"go", "redis-server"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	if _, err := os.Stat("../go.mod"); err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", bin, "./gateway/cmd/gateway", "./checker/cmd/checker", "./rules/cmd/rules", "./dev/cmd/dev")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// newSystem picks addresses that nobody uses, and takes the system down at the end.
func newSystem(t *testing.T, bin string) *system {
	t.Helper()
	s := &system{t: t, bin: bin, network: freeNetwork(t)}
	parent, err := os.MkdirTemp("", "shiplane-dev-") //nolint:usetesting // Postgres' user could not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(parent, 0o711); err != nil {
		t.Fatal(err)
	}
	s.dir = filepath.Join(parent, "state")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.try("status", "--all")
			t.Logf("status:\n%s", out)
		}
		s.try("down")
		os.RemoveAll(parent)
	})
	return s
}

// freeNetwork is a second byte of addresses, 127.N.x.x, on which nobody serves
// what a system would.
func freeNetwork(t *testing.T) string {
	t.Helper()
	const first, all = 64, 128
	for i := range all {
		n := first + (os.Getpid()+i)%all
		l, err := net.Listen("tcp", fmt.Sprintf("127.%d.1.1:8082", n))
		if err == nil {
			l.Close()
			return fmt.Sprint(n)
		}
	}
	t.Fatal("no network is free")
	return ""
}

// try runs a command and returns all that it prints.
func (s *system) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "dev"), append([]string{"--dir", s.dir}, args...)...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try for what must work.
func (s *system) run(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatalf("dev %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// says runs a command that must work and say all of want.
func (s *system) says(args []string, want ...string) {
	s.t.Helper()
	out := s.run(args...)
	for _, w := range want {
		if !strings.Contains(out, w) {
			s.t.Errorf("dev %s does not say %q, but\n%s", strings.Join(args, " "), w, out)
		}
	}
}

func (s *system) up(args ...string) {
	s.t.Helper()
	// Calls get a second: a machine that is busy with tests is no outage.
	names := "home"
	for i := 1; i < *regions; i++ {
		names += fmt.Sprint(",away-", i)
	}
	s.says(append([]string{"up", "--detach", "--network", s.network, "--regions", names, "--node-timeout", nodeTimeout(), "--store-timeout", "1s"}, args...), "Ready in")
}

// nodeTimeout is short, for a failover takes as long, unless there are so many servers
// that a busy machine lets one wait.
func nodeTimeout() string {
	if *shards**regions > 9 {
		return "5s"
	}
	return "1s"
}

func (s *system) status() (status stack.Status) {
	s.t.Helper()
	if err := json.Unmarshal([]byte(s.run("status", "--json")), &status); err != nil {
		s.t.Fatal(err)
	}
	return status
}

func (s *system) part(name string) stack.PartStatus {
	s.t.Helper()
	status := s.status()
	i := slices.IndexFunc(status.Parts, func(p stack.PartStatus) bool { return p.Name == name })
	if i < 0 {
		s.t.Fatalf("there is no %s in %+v", name, status.Parts)
	}
	return status.Parts[i]
}

// ask sends a request to gateway i and returns the answer's status.
func (s *system) ask(i int, method, path, key, body string) int {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://127.%s.1.%d:8080%s", s.network, 10+i, path), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

func (s *system) login(i int) int {
	s.t.Helper()
	return s.ask(i, http.MethodPost, "/v1/login", "", fmt.Sprintf(`{"username": "user-%d"}`, time.Now().UnixNano()))
}

func (s *system) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not so within %v: %s", patience, what)
		}
	}
}

// whole reports whether all slots are served, by primaries that have their replicas.
func (s *system) whole() bool {
	return !slices.ContainsFunc(s.status().Regions, func(region stack.RegionStatus) bool {
		bare := func(shard stack.Shard) bool { return len(shard.Replicas) != 1 }
		return region.Slots != testenv.Slots || len(region.Shards) != *shards || slices.ContainsFunc(region.Shards, bare)
	})
}
