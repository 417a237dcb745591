package failover

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/testenv"
)

// flags are what the two commands share.
type flags struct {
	Pods        int           `default:"6" placeholder:"N" help:"Pods that share the cluster, 1 to 64 (default 6)."`
	Scale       float64       `default:"1" placeholder:"N" help:"Times the load and the limits: 1 is 270 requests a second and shard (default 1)."`
	Timeout     time.Duration `default:"5ms" help:"Of a call to the store (default 5ms, as in production)."`
	NodeTimeout time.Duration `default:"3s" help:"Of the cluster, 200ms to 1m: how long a primary is silent before it is replaced (default 3s; production 15s)."`
	Shards      int           `default:"3" placeholder:"N" help:"Primaries, each with a replica, 3 to 64: fewer cannot agree that one is dead (default 3)."`
}

// Validate implements kong's check of values.
func (f *flags) Validate() error {
	if f.Shards < 3 || f.Shards > 64 {
		return fmt.Errorf("--shards is %d: want 3 to 64", f.Shards)
	}
	return f.config().Validate()
}

func (f *flags) config() Config { return Config{Pods: f.Pods, Scale: f.Scale, Timeout: f.Timeout} }

// start stands a cluster and a fleet up; close ends both.
func (f *flags) start(ctx context.Context, proxied bool) (c *testenv.RedisCluster, fleet *Fleet, close func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err = testenv.StartRedisCluster(ctx, testenv.RedisClusterConfig{
		Primaries: f.Shards, Replicas: 1, NodeTimeout: f.NodeTimeout, RedisConfig: testenv.RedisConfig{Proxied: proxied},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if fleet, err = StartFleet(ctx, c, f.config()); err != nil {
		_ = c.Close()
		return nil, nil, nil, err
	}
	return c, fleet, func() { fleet.Close(); _ = c.Close() }, nil
}

// Bounds of what is waited for.
const (
	startTimeout = 2 * time.Minute
	outageExtra  = time.Minute     // besides the node timeout
	calm         = 2 * time.Second // before and after the outage
)

// commands is the command line.
type commands struct {
	Timeline timelineCommand `cmd:"" default:"withargs" help:"One primary fails under load: print what callers saw, by quarters of a second."`
	Soak     soakCommand     `cmd:"" help:"An outage of a minute at full load, then ten minutes of edits of rules: print what memory, goroutines and connections came to, and fail if they grew."`
}

// timelineCommand is the command that shows one outage.
type timelineCommand struct {
	flags `embed:""`

	Mode Mode   `default:"kill" enum:"kill,freeze,delay,loss,partition" help:"How the primary fails: kill, freeze, delay, loss or partition (default kill)."`
	HTML string `name:"html" placeholder:"FILE" help:"Draw the timeline in this file too."`
}

// Main is the command: it returns its exit code, 0 if it ran and what it asserts
// held, 1 if not, 2 if the command line is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	var cmd commands
	exit := -1
	parser, err := kong.New(&cmd, kong.Name("failover"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.Description("Lets a shard of the counter store fail under load, on a cluster of its own, and shows what callers see."))
	if err != nil {
		fmt.Fprintln(stderr, "failover:", err)
		return 2
	}
	selected, err := parser.Parse(args)
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "failover:", err)
		return 2
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	run := cmd.Timeline.run
	if selected.Command() == "soak" {
		run = cmd.Soak.run
	}
	if err := run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "failover:", err)
		return 1
	}
	return 0
}

func (cmd *timelineCommand) run(ctx context.Context, stdout io.Writer) error {
	c, fleet, close, err := cmd.start(ctx, true)
	if err != nil {
		return err
	}
	defer close()
	ctx, cancel := context.WithTimeout(ctx, cmd.NodeTimeout+outageExtra)
	defer cancel()
	if err := pass(ctx, calm); err != nil {
		return err
	}
	o, err := fleet.Fail(ctx, c, cmd.Mode, 0, cmd.Timeout)
	if err != nil {
		return err
	}
	if err := pass(ctx, calm); err != nil {
		return err
	}
	if err := fleet.WriteText(stdout, o); err != nil || cmd.HTML == "" {
		return err
	}
	file, err := os.Create(cmd.HTML)
	if err != nil {
		return err
	}
	defer file.Close()
	about := fmt.Sprintf("Mode %s, %d pods, %d shards, store timeout %v, node timeout %v.", cmd.Mode, cmd.Pods, cmd.Shards, cmd.Timeout, cmd.NodeTimeout)
	if err := fleet.WritePage(file, o, about); err != nil {
		return err
	}
	return file.Close()
}

// pass lets time pass, unless ctx ends.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
