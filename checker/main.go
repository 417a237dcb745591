package checker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
)

// Main runs the command line args and returns the exit code: 0 after a clean end,
// 1 after a failure, 2 if the command line or what it names is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "checker: %v\n", err)
	}
	return serve.ExitCode(err)
}

func run(args []string, stdout, stderr io.Writer) error {
	f := &flags{}
	_, err := command.Parse("checker", "", f, args, stdout, stderr)
	switch {
	case errors.Is(err, command.ErrHelp):
		return nil
	case err != nil:
		return serve.Usage(err)
	}
	cfg, err := f.config()
	if err != nil {
		return serve.Usage(err)
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	defer runtime.KeepAlive(serve.Ballast())
	return Run(ctx, cfg, Output{Stderr: stderr})
}

// Output is where a checker reports.
type Output struct {
	Stderr io.Writer // for the log
	// Listening is called once everything is served, with the addresses that were
	// bound. Nil: nobody is told.
	Listening func(api, grpc, admin net.Addr)
}
