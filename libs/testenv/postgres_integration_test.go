package testenv_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// owner is set in a copy of this test that starts servers and waits to be killed.
const owner = "SHIPLANE_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(owner); dir != "" {
		os.Exit(own(dir))
	}
	os.Exit(m.Run())
}

// own prints the servers' process numbers on one line.
func own(dir string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := testenv.StartRedis(ctx, testenv.RedisConfig{Dir: dir + "/redis", Proxied: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	p, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Dir: dir + "/postgres"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(r.Nodes()[0].PID(), strings.Join(postgresProcesses(p.Dir()), " "))
	select {}
}

// postgresProcesses are the server in a folder and its children.
func postgresProcesses(dir string) []string {
	file, _ := os.ReadFile(dir + "/data/postmaster.pid")
	server, _, _ := strings.Cut(string(file), "\n")
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%s/task/%s/children", server, server))
	return append([]string{server}, strings.Fields(string(children))...)
}

// Postgres answers whoever has the password, keeps what was committed over a
// crash and over a stop, and leaves nothing when it is closed.
func TestPostgresAnswersAndLeavesNothing(t *testing.T) {
	ctx, start := limit(t), time.Now()
	p, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Proxied: true, Config: map[string]string{"max_connections": "17"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	t.Logf("started in %v", time.Since(start))
	mustBe(t, "17", query(t, p.URL("postgres"), "SHOW max_connections"))
	mustBe(t, "UTF8", query(t, p.URL("postgres"), "SHOW server_encoding"))
	query(t, p.URL("postgres"), "CREATE TABLE kept (n int)")
	query(t, p.URL("postgres"), "INSERT INTO kept VALUES (42)")
	wrong, err := url.Parse(p.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword("postgres", "guess")
	if got := query(t, wrong.String(), "SELECT 1"); !strings.Contains(got, "password authentication failed") {
		t.Errorf("a wrong password: %q", got)
	}
	p.Kill()
	if _, err := net.Dial("tcp", p.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling a dead server: %v, want %v", err, syscall.ECONNREFUSED)
	}
	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "42", query(t, p.URL("postgres"), "SELECT n FROM kept"))
	if err := p.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "42", query(t, p.URL("postgres"), "SELECT n FROM kept"))
	processes := postgresProcesses(p.Dir())
	if len(processes) < 3 {
		t.Fatalf("the server's processes are %q, want several", processes)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	gone(t, processes)
	if _, err := os.Stat(p.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", p.Dir(), err)
	}
}

// A start that is given up while initdb works ends what initdb has started, too: its
// folder can be removed at once, and its shared memory is given back.
func TestGivenUpPostgresLeavesNothing(t *testing.T) {
	parent, err := os.MkdirTemp("", "shiplane-postgres-") //nolint:usetesting // Postgres' user could not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o711); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(limit(t))
	dir := parent + "/postgres"
	go func() { // initdb writes this file just before it runs a server
		for ctx.Err() == nil {
			if _, err := os.Stat(dir + "/data/PG_VERSION"); err == nil {
				giveUp()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if folder, err := os.Readlink(link); err == nil && strings.HasPrefix(folder, dir) {
			t.Errorf("a process is left in %s: %s", folder, link)
		}
	}
}

// A server that does not start is an error that shows why.
func TestFailedPostgresShowsTheLog(t *testing.T) {
	_, err := testenv.StartPostgres(limit(t), testenv.PostgresConfig{Config: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got %v, want what postgres says about no_such_setting", err)
	}
}

// Nothing outlives an owner that is killed: not Redis, and neither Postgres nor
// its children; and RemoveLeft removes what they had in memory, too.
func TestNothingOutlivesAKilledOwner(t *testing.T) {
	dir, err := os.MkdirTemp("", "shiplane-owner-") //nolint:usetesting // Postgres' user could not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), owner+"="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	processes := strings.Fields(said)
	if err != nil || len(processes) < 4 {
		t.Fatalf("the owner started %q, %v, want Redis and several of Postgres", processes, err)
	}
	gone(t, processes)
	quick, err := os.Readlink(dir + "/redis/nodes")
	if err != nil {
		t.Fatal(err)
	}
	if err := testenv.RemoveLeft(dir + "/redis"); err != nil {
		t.Error(err)
	}
	for _, folder := range []string{quick, dir + "/redis"} {
		if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", folder, err)
		}
	}
}

// After a failure the logs are printed and kept, and the servers are gone.
func TestFailureKeepsTheLogs(t *testing.T) {
	failing := &failingTest{TB: t}
	r := envtest.Redis(failing, testenv.RedisConfig{})
	defer os.RemoveAll(r.Dir())
	for i := range failing.cleanups {
		failing.cleanups[len(failing.cleanups)-1-i]()
	}
	gone(t, []string{strconv.Itoa(r.Nodes()[0].PID())})
	if log, err := os.ReadFile(r.Logs()[0]); err != nil || !strings.Contains(string(log), "Ready to accept connections") {
		t.Errorf("the log reads %q, %v", log, err)
	}
	for _, want := range []string{"Ready to accept connections", "kept: " + r.Dir()} {
		if !strings.Contains(failing.said, want) {
			t.Errorf("the test said %q, want %q", failing.said, want)
		}
	}
}

// failingTest is a test that has failed.
type failingTest struct {
	testing.TB

	cleanups []func()
	said     string
}

func (f *failingTest) Failed() bool            { return true }
func (f *failingTest) Cleanup(do func())       { f.cleanups = append(f.cleanups, do) }
func (f *failingTest) Logf(s string, a ...any) { f.said += fmt.Sprintf(s, a...) + "\n" }

// query returns what psql prints.
func query(t *testing.T, database, sql string) string {
	t.Helper()
	out, err := exec.CommandContext(limit(t), "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--dbname="+database, "--command="+sql).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// gone waits until processes are: a child is a zombie until its parent, or the
// system in its place, has noticed.
func gone(t *testing.T, processes []string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for _, pid := range processes {
		for {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			if _, state, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(state, "Z") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %s of %v still runs: %s", pid, processes, stat)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}
