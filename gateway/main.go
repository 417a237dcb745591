package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
)

// commands is the command line: to run the gateway is the default.
type commands struct {
	Run     flags   `cmd:"" default:"withargs" help:"Shiplane's API gateway: a reverse proxy that holds callers to their limits."`
	HashKey hashKey `cmd:"" help:"Print the key file's entry of an API key."`

	Check   checkCommand   `cmd:"" help:"Read rules, keys and flags, and print what is wrong or which rules requests meet."`
	Explain explainCommand `cmd:"" help:"Print which rules one request meets, with which limits, and what it would be charged."`
	Key     keyCommand     `cmd:"" help:"Print what the store holds of one account, address or user."`
}

// Main runs the command line args and returns the exit code: 0 after a clean end,
// 1 after a failure, 2 if the command line or what it names is wrong.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := run(args, stdin, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "gateway: %v\n", err)
	}
	return serve.ExitCode(err)
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	cmd := &commands{}
	selected, err := command.Parse("gateway", "run", cmd, args, stdout, stderr)
	switch {
	case errors.Is(err, command.ErrHelp):
		return nil
	case err != nil:
		return serve.Usage(err)
	case selected == "hash-key":
		return cmd.HashKey.run(stdin, stdout, stderr)
	case selected == "check":
		return cmd.Check.run(stdout)
	case selected == "key":
		return cmd.Key.run(stdout)
	case strings.HasPrefix(selected, "explain"): // and its arguments
		return cmd.Explain.run(stdin, stdout)
	}
	cfg, err := cmd.Run.config()
	if err != nil {
		return serve.Usage(err)
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	defer runtime.KeepAlive(serve.Ballast())
	return Run(ctx, cfg, Output{Stdout: stdout, Stderr: stderr})
}
