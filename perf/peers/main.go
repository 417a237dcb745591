package peers

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// command is the command line.
type command struct {
	Checker    string `type:"existingfile" default:"bin/checker" placeholder:"FILE" help:"Our checker (default bin/checker)."`
	Ratelimit  string `type:"existingfile" required:"" placeholder:"FILE" help:"envoyproxy/ratelimit's server."`
	Gubernator string `type:"existingfile" required:"" placeholder:"FILE" help:"gubernator's server."`

	Turns       int           `default:"12" help:"Turns of each service in each scenario, after one that is not counted, 1 to 1000 (default 12)."`
	Slice       time.Duration `default:"1s" help:"Length of a turn, 100ms to 1m (default 1s)."`
	Keys        int           `default:"100000" help:"Keys of the scenarios with many, 1 to 1000000 (default 100000)."`
	Connections int           `default:"4" help:"Connections of the load, 1 to 64 (default 4)."`
	InFlight    int           `default:"16" help:"Calls in flight on each, 1 to 64 (default 16)."`

	RedisPool      int           `default:"10" help:"Connections of envoyproxy/ratelimit to Redis (default 10, its own)."`
	PipelineWindow time.Duration `default:"0s" help:"Its REDIS_PIPELINE_WINDOW (default 0s, its own)."`
	PipelineLimit  int           `default:"0" help:"Its REDIS_PIPELINE_LIMIT (default 0, its own)."`
}

// Validate implements kong's check of values.
func (c *command) Validate() error {
	for _, v := range [...]struct {
		flag               string
		value, least, most int
	}{{"turns", c.Turns, 1, 1000}, {"keys", c.Keys, 1, 1_000_000}, {"connections", c.Connections, 1, 64}, {"in-flight", c.InFlight, 1, inFlightMax}} {
		if v.value < v.least || v.value > v.most {
			return fmt.Errorf("--%s is %d: want %d to %d", v.flag, v.value, v.least, v.most)
		}
	}
	if c.Slice < 100*time.Millisecond || c.Slice > time.Minute {
		return fmt.Errorf("--slice is %v: want 100ms to 1m", c.Slice)
	}
	return nil
}

// Main is the command: it returns its exit code, 0 if everything was measured, 1
// if not, 2 if the command line is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	var c command
	exit := -1
	parser, err := kong.New(&c, kong.Name("peers"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.Description("Measures the checker beside other rate limit services, on a Redis that it starts."))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx, stdout); err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return 1
	}
	return 0
}
