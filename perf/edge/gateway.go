package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// rules never refuse here: what is measured is the way through.
const rules = `
rules:
  - {id: all-ip, scope: all, identity: ip, algorithm: token_bucket, rate: 1000000/s, burst: 1000000}
`

// bytes is an amount of memory.
type bytes int64

func (b bytes) String() string { return fmt.Sprintf("%.1f MiB", float64(b)/(1<<20)) }

// memory is a resident set.
type memory struct{ now, peak bytes }

// gateway is a gateway in a process of its own.
type gateway struct {
	process    *exec.Cmd
	api, admin string // HOST:PORT
	ended      chan error
	dir        string
}

var listening = regexp.MustCompile(`msg=listening api=(\S+) admin=(\S+)`)

func startGateway(ctx context.Context, path, upstream string, flags ...string) (*gateway, error) {
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		return nil, err
	}
	g := &gateway{dir: dir, ended: make(chan error, 1)}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return nil, err
	}
	args := append([]string{"--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--upstream", upstream, "--rules", file}, flags...)
	g.process = exec.CommandContext(ctx, path, args...)
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
		g.api, g.admin = at[1], at[2]
		return g, g.resetPeak()
	case err := <-g.ended:
		return nil, fmt.Errorf("the gateway ended: %w", err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// resetPeak makes the peak of the memory begin now.
func (g *gateway) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", g.process.Process.Pid), []byte("5"), 0o200)
}

func (g *gateway) memory() (m memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.process.Process.Pid))
	if err != nil {
		return m, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			m.now = bytes(kib << 10)
		case "VmHWM":
			m.peak = bytes(kib << 10)
		}
	}
	if m.peak == 0 {
		return m, errors.New("the gateway's memory is not known")
	}
	return m, nil
}

// within asserts a bound on the peak of the memory.
func (g *gateway) within(most bytes) error {
	m, err := g.memory()
	if err == nil && m.peak > most {
		err = fmt.Errorf("the gateway's memory reached %v, want at most %v", m.peak, most)
	}
	return err
}

// terminate asks the gateway to end and returns how it did, and how long it took.
func (g *gateway) terminate(ctx context.Context) (took time.Duration, err error) {
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

// kill ends what is left.
func (g *gateway) kill() {
	_ = g.process.Process.Kill()
	_ = os.RemoveAll(g.dir)
}
