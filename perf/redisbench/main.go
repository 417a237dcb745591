package redisbench

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// commands are the command's.
type commands struct {
	Throughput throughputCommand `cmd:"" help:"Calls a second of one process against one primary, beside bare pipelines of the same script and other limiters."`
	Memory     memoryCommand     `cmd:"" help:"Bytes of the store's memory by account and login."`
}

// memoryCommand fills servers and prints what that took.
type memoryCommand struct {
	Accounts int `default:"1000000" help:"Accounts of each shape, 100000 to 10000000."`
	Logins   int `default:"1000000" help:"Login attempts, of as many users and of a fifth of them, 100000 to 10000000."`
}

// Validate implements kong's check of values.
func (c *memoryCommand) Validate() error {
	for _, v := range []struct {
		flag  string
		value int
	}{{"accounts", c.Accounts}, {"logins", c.Logins}} {
		if v.value < 100_000 || v.value > 10_000_000 {
			return fmt.Errorf("--%s is %d: want 100000 to 10000000", v.flag, v.value)
		}
	}
	return nil
}

func (c *memoryCommand) run(ctx context.Context, out io.Writer) error {
	for _, sh := range []Shape{TwoBuckets, SevenBuckets, OneLogin, FiveLogins} {
		n := c.Accounts
		if sh.Kind == OneLogin.Kind {
			n = c.Logins / sh.Attempts
		}
		m, err := MeasureMemory(ctx, sh, n)
		if err != nil {
			return fmt.Errorf("%s: %w", sh.Name, err)
		}
		fmt.Fprintln(out, m)
	}
	return nil
}

// throughputCommand compares stores by calls a second.
type throughputCommand struct {
	For      time.Duration `default:"12s" help:"How long to measure, all together, 1s to 10m."`
	Slice    time.Duration `default:"200ms" help:"How long each has its turn, 50ms to 10s."`
	InFlight int           `default:"64" help:"Calls in flight, 1 to 1024."`
	Accounts int           `default:"1000" help:"Accounts that the calls are spread over, 1 to 1000000."`
	Procs    int           `help:"Processors that this process uses at once, 1 to 1024; 0: all but one, which is the server's, or the only one, which both share."`
}

// Validate implements kong's check of values.
func (c *throughputCommand) Validate() error {
	switch {
	case c.For < time.Second || c.For > 10*time.Minute:
		return fmt.Errorf("--for is %v: want 1s to 10m", c.For)
	case c.Slice < 50*time.Millisecond || c.Slice > 10*time.Second:
		return fmt.Errorf("--slice is %v: want 50ms to 10s", c.Slice)
	case c.InFlight < 1 || c.InFlight > 1024:
		return fmt.Errorf("--in-flight is %d: want 1 to 1024", c.InFlight)
	case c.Accounts < 1 || c.Accounts > 1_000_000:
		return fmt.Errorf("--accounts is %d: want 1 to 1000000", c.Accounts)
	case c.Procs < 0 || c.Procs > 1024:
		return fmt.Errorf("--procs is %d: want 0 to 1024", c.Procs)
	}
	return nil
}

// Main is the command: it returns its exit code, 0 if everything was measured, 1
// if not, 2 if the command line is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	var cmd commands
	exit := -1
	parser, err := kong.New(&cmd, kong.Name("redisbench"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.Description("Measures what the counter store costs a real Redis, on servers that it starts."))
	var parsed *kong.Context
	if err == nil {
		parsed, err = parser.Parse(args)
	}
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "redisbench:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if parsed.Command() == "memory" {
		err = cmd.Memory.run(ctx, stdout)
	} else {
		err = cmd.Throughput.run(ctx, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "redisbench:", err)
		return 1
	}
	return 0
}
