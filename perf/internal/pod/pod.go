// Package pod runs a gateway or a checker in a process of its own, to measure it from outside.
// Its memory is what Linux reports, so that it runs on Linux only.
package pod

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bytes is an amount of memory.
type Bytes int64

func (b Bytes) String() string { return fmt.Sprintf("%.1f MiB", float64(b)/(1<<20)) }

// Memory is a resident set: now, and at most since the last ResetPeak.
type Memory struct{ Now, Peak Bytes }

// Pod is a gateway or a checker in a process of its own.
type Pod struct {
	API, GRPC, Admin string // HOST:PORT; GRPC of a checker only
	process          *exec.Cmd
	ended            chan error
}

var listening = regexp.MustCompile(`msg=listening api=(\S+)(?: grpc=(\S+))? admin=(\S+)`)

// Start runs the program at path with these flags, on free ports of loopback, until
// ctx ends or Kill.
func Start(ctx context.Context, path string, flags ...string) (*Pod, error) {
	g := &Pod{ended: make(chan error, 1)}
	g.process = exec.CommandContext(ctx, path, append([]string{"--listen=127.0.0.1:0", "--admin=127.0.0.1:0"}, flags...)...)
	stderr, err := g.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := g.process.Start(); err != nil {
		return nil, err
	}
	found := make(chan []string, 1)
	go func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			if at := listening.FindStringSubmatch(s.Text()); at != nil {
				found <- at
			}
		}
		g.ended <- g.process.Wait()
	}()
	select {
	case at := <-found:
		g.API, g.GRPC, g.Admin = at[1], at[2], at[3]
		return g, g.ResetPeak()
	case err := <-g.ended:
		return nil, fmt.Errorf("the pod ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ResetPeak makes the peak of the memory begin now.
func (g *Pod) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", g.process.Process.Pid), []byte("5"), 0o200)
}

// Memory returns the pod's memory.
func (g *Pod) Memory() (m Memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.process.Process.Pid))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			m.Now = Bytes(kib << 10)
		case "VmHWM":
			m.Peak = Bytes(kib << 10)
		}
	}
	if m.Peak == 0 {
		return m, errors.New("the pod's memory is not known")
	}
	return m, nil
}

// Within asserts a bound on the peak of the memory.
func (g *Pod) Within(most Bytes) error {
	m, err := g.Memory()
	if err == nil && m.Peak > most {
		err = fmt.Errorf("the pod's memory reached %v, want at most %v", m.Peak, most)
	}
	return err
}

// Terminate asks the pod to end and returns how it did, and how long it took.
func (g *Pod) Terminate(ctx context.Context) (took time.Duration, err error) {
	began := time.Now()
	if err := g.process.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case err := <-g.ended:
		return time.Since(began), err
	case <-ctx.Done():
		return time.Since(began), ctx.Err()
	}
}

// Kill ends what is left of the process.
func (g *Pod) Kill() { _ = g.process.Process.Kill() }
