package rules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
)

// commands is the command line: to run the service is the default.
type commands struct {
	Run   flags        `cmd:"" default:"withargs" help:"Shiplane's rules service: it keeps the rules of rate limits, and brings each change to every gateway."`
	Token tokenCommand `cmd:"" help:"Make a token in the store itself, as for an administrator who has lost theirs."`
}

// Main runs the command line args and returns the exit code: 0 after a clean end,
// 1 after a failure, 2 if the command line or what it names is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "rules: %v\n", err)
	}
	return serve.ExitCode(err)
}

func run(args []string, stdout, stderr io.Writer) error {
	cmd := &commands{}
	selected, err := command.Parse("rules", "run", cmd, args, stdout, stderr)
	switch {
	case errors.Is(err, command.ErrHelp):
		return nil
	case err != nil:
		return serve.Usage(err)
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	if selected == "token" {
		return cmd.Token.run(ctx, stdout, stderr)
	}
	cfg, err := cmd.Run.config()
	if err != nil {
		return serve.Usage(err)
	}
	return Run(ctx, cfg, Output{Stderr: stderr})
}

// Output is where a service reports.
type Output struct {
	Stderr io.Writer // for the log
	// Listening is called once everything is served, with the addresses that were
	// bound. Nil: nobody is told.
	Listening func(api, admin net.Addr)
}
