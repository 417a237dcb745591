package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/perf/internal/pod"
)

// flags is the command line.
type flags struct {
	Gateway     string        `default:"bin/gateway" placeholder:"FILE" help:"The gateway to run (default bin/gateway; make run builds it)."`
	Checker     string        `default:"bin/checker" placeholder:"FILE" help:"The checker to run (default bin/checker; make run-checker builds it)."`
	Only        []string      `placeholder:"NAME,..." help:"Scenarios to run (default: all)."`
	Body        int64         `default:"1073741824" placeholder:"BYTES" help:"Size of a large body (default 1 GiB)."`
	Stream      time.Duration `default:"60s" help:"How long the event stream lasts (default 60s)."`
	Connections int           `default:"10000" placeholder:"N" help:"Idle connections to hold (default 10000); both processes need as many open files."`
	Screenshot  string        `placeholder:"FILE" help:"Where the browser writes what it shows (default: nowhere)."`
	Chromium    string        `default:"chromium" placeholder:"COMMAND" help:"The browser (default chromium)."`
}

// scenario is one treatment. It returns what it measured, and what did not hold.
type scenario struct {
	name  string
	limit time.Duration
	flags []string // of the pod
	check bool     // the pod is a checker
	run   func(ctx context.Context, b *bench) (figures string, err error)
}

// rules never refuse here: what is measured is the way through.
const rules = `
rules:
  - {id: all-ip, scope: all, identity: ip, algorithm: token_bucket, rate: 1000000/s, burst: 1000000}
`

// bench is what a scenario works with.
type bench struct {
	flags
	gateway  *pod.Pod // or the checker
	upstream *upstream
}

func scenarios(f flags) []scenario {
	return []scenario{
		{name: "bodies", limit: 5 * time.Minute, run: bodies},
		{name: "websocket", limit: time.Minute, run: websockets},
		{name: "events", limit: f.Stream + time.Minute, run: events},
		{name: "browser", limit: 2 * time.Minute, run: browser},
		{name: "slowloris", limit: time.Minute, flags: []string{"--client-timeout=5s"}, run: slowloris},
		{name: "headers", limit: time.Minute, run: headers},
		{name: "idle", limit: 3 * time.Minute, run: idle},
		{name: "sigterm", limit: time.Minute, flags: []string{"--drain-delay=2s", "--drain-timeout=10s"}, run: sigterm},
		{name: "checker-slow", limit: 2 * time.Minute, check: true, run: checkerSlow},
		{name: "checker-size", limit: time.Minute, check: true, run: checkerSize},
		{name: "checker-idle", limit: 3 * time.Minute, check: true, run: checkerIdle},
	}
}

// Main runs the command line args and returns the exit code: 0 if everything held.
func Main(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "edge: %v\n", err)
	}
	return serve.ExitCode(err)
}

func run(args []string, stdout io.Writer) error {
	var f flags
	parser, err := kong.New(&f, kong.Name("edge"), kong.Description("Treat a gateway as the internet does, and report its memory."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return serve.Usage(err)
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	var faults []error
	for _, s := range scenarios(f) {
		if len(f.Only) > 0 && !slices.Contains(f.Only, s.name) {
			continue
		}
		if err := runOne(ctx, f, s, stdout); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(faults...)
}

// runOne runs a scenario against a gateway of its own.
func runOne(ctx context.Context, f flags, s scenario, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	up, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer up.close()
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		return err
	}
	program, args := f.Gateway, []string{"--rules=" + file, "--upstream=" + up.url}
	if s.check {
		program, args = f.Checker, []string{"--rules=" + file, "--grpc-listen=127.0.0.1:0"}
	}
	g, err := pod.Start(ctx, program, append(args, s.flags...)...)
	if err != nil {
		return err
	}
	defer g.Kill()
	before, err := g.Memory()
	if err != nil {
		return err
	}
	began := time.Now()
	figures, err := s.run(ctx, &bench{flags: f, gateway: g, upstream: up})
	verdict := "held"
	if err != nil {
		verdict = "FAILED: " + err.Error()
	}
	memory := ""
	if after, memoryErr := g.Memory(); memoryErr == nil {
		memory = fmt.Sprintf("; memory %v before, %v at most, %v after", before.Now, after.Peak, after.Now)
	}
	fmt.Fprintf(stdout, "%-10s %5.1f s  %s\n           %s%s\n", s.name, time.Since(began).Seconds(), verdict, strings.TrimSpace(figures), memory)
	return err
}
