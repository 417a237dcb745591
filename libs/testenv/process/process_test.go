package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv/process"
)

// patience bounds what ends at once unless it is broken.
const patience = 20 * time.Second

// owner is set in a copy of this test that starts a server and waits to be killed.
const owner = "SHIPLANE_TEST_OWNER"

func TestMain(m *testing.M) {
	if log := os.Getenv(owner); log != "" {
		os.Exit(own(log))
	}
	os.Exit(m.Run())
}

func own(log string) int {
	p, err := process.Start(process.Config{Args: []string{"sleep", "600"}, Log: log})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(p.PID())
	<-p.Done()
	return 1
}

// Even if the owner is killed, and so has no chance to end anything, its servers
// end: frozen ones too.
func TestServersEndWithAKilledOwner(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprintf("frozen=%t", frozen), func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), owner+"="+filepath.Join(t.TempDir(), "log"))
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			pid, _ := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || pid == 0 {
				t.Fatalf("owner said %q, %v", line, err)
			}
			if frozen {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			cmd.Process.Kill()
			cmd.Wait()
			eventually(t, func() bool { s := state(pid); return s == "" || s == "Z" })
		})
	}
}

// A thread that ends takes no server with it, though the kernel's notion of a
// parent is a thread: the server lives until it is ended, or its owner is.
func TestServerOutlivesTheThreadThatAskedForIt(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var p *process.Process
	var err error
	thread := make(chan int)
	var startAndEnd func()
	startAndEnd = func() {
		runtime.LockOSThread() // a goroutine that ends with its thread locked ends the thread
		if syscall.Gettid() == os.Getpid() {
			go startAndEnd() // but the main thread never ends
			return
		}
		p, err = process.Start(process.Config{Args: []string{"sleep", "600"}, Log: log})
		thread <- syscall.Gettid()
	}
	go startAndEnd()
	tid := <-thread
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	eventually(t, func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", tid))
		return errors.Is(err, os.ErrNotExist)
	})
	if err := p.Freeze(); err != nil || state(p.PID()) != "T" {
		t.Errorf("the server is in state %q: %v, %v", state(p.PID()), err, p.Err())
	}
}

// A killed server is gone when Kill returns, a frozen one too.
func TestKilledServerIsGone(t *testing.T) {
	p := start(t, "sleep", "600")
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill()
	if p.Running() || state(p.PID()) != "" {
		t.Errorf("still there, state %q", state(p.PID()))
	}
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended by %v, want SIGKILL", p.Err())
	}
	if err := p.Freeze(); err == nil {
		t.Error("a server that has ended can be frozen")
	}
}

// A frozen server does nothing at all until it is thawed.
func TestFrozenServerDoesNothing(t *testing.T) {
	p := start(t, "sh", "-c", "while :; do :; done")
	for range 20 {
		for range 2 { // freezing what is frozen is nothing
			if err := p.Freeze(); err != nil {
				t.Fatal(err)
			}
		}
		if s := state(p.PID()); s != "T" {
			t.Fatalf("state %q after Freeze, want T", s)
		}
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool { return state(p.PID()) != "T" })
	}
}

// A server gets the time to end by itself, and no more than that.
func TestStopWaitsAndThenKills(t *testing.T) {
	if err := start(t, "sleep", "600").Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	deaf := start(t, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
	eventually(t, func() bool { return deaf.tail() == "ready" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deaf.Stop(ctx, syscall.SIGTERM); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if deaf.Running() {
		t.Error("a server that does not obey still runs")
	}
}

// What a server says is kept, over restarts, and its end can be shown.
func TestLogIsKept(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, said := range []string{"one", "two", "three"} {
		p, err := process.Start(process.Config{Args: []string{"echo", said}, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
	}
	for lines, want := range map[int]string{0: "", 1: "three", 2: "two\nthree", 3: "one\ntwo\nthree", 9: "one\ntwo\nthree"} {
		if got := process.Tail(log, lines); got != want {
			t.Errorf("the last %d lines are %q, want %q", lines, got, want)
		}
	}
	if got := process.Tail(log+".none", 1); !strings.Contains(got, "no such file") {
		t.Errorf("a log that is not there reads %q", got)
	}
}

// What cannot be started is an error that names it.
func TestStartNamesWhatFails(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for want, cfg := range map[string]process.Config{
		"no-such-program": {Args: []string{"no-such-program"}, Log: log},
		"no arguments":    {Log: log},
		"log of echo":     {Args: []string{"echo"}, Log: "/no/such/folder"},
	} {
		if _, err := process.Start(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// server is a process with its log.
type server struct {
	*process.Process

	log string
}

func start(t *testing.T, args ...string) server {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := process.Start(process.Config{Args: args, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return server{p, log}
}

func (s server) tail() string { return process.Tail(s.log, 1) }

// state is the process's in /proc, empty if there is none.
func state(pid int) string {
	file, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	defer file.Close()
	content, _ := io.ReadAll(file)
	_, rest, _ := strings.Cut(string(content), ") ")
	return rest[:min(1, len(rest))]
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not so within %v", patience)
		}
		time.Sleep(time.Millisecond)
	}
}
