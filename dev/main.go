package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/shiplane/limits/dev/internal/control"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
)

// commands is the command line.
type commands struct {
	Dir string `placeholder:"DIR" help:"Folder of the running system: logs, tokens, sockets. down removes it (default: shiplane-dev-UID in the folder of temporary files)."`

	Up          upCommand          `cmd:"" help:"Start the system, and end it with Ctrl-C. If it is running already, say what is."`
	Down        struct{}           `cmd:"" help:"End the system: no process, port or file of it is left."`
	Status      statusCommand      `cmd:"" help:"Show processes, slots, breakers and the revisions of rules; again and again on a terminal."`
	KillPrimary killPrimaryCommand `cmd:"" help:"Kill the Redis server that serves a shard of a region."`
	Kill        partCommand        `cmd:"" help:"Kill a process, as a crash does."`
	Freeze      partCommand        `cmd:"" help:"Stop a process in its tracks: its connections stay open and nothing is answered."`
	Thaw        anyPartCommand     `cmd:"" help:"Let a frozen process go on; all of them if none is named."`
	Restart     partCommand        `cmd:"" help:"Start a process again, killing it first if it is not dead."`
	Partition   regionCommand      `cmd:"" help:"Cut a region's Redis off from its pods: nothing passes, connections stay open."`
	Heal        anyRegionCommand   `cmd:"" help:"Undo all faults of a region, or of all: end partitions, thaw, restart what is dead."`
	Logs        logsCommand        `cmd:"" help:"Show the log of a process."`

	Upstream upstreamCommand `cmd:"" hidden:"" help:"Serve the API behind the gateways."`
}

// Main runs the command line args and returns the exit code: 0 after a clean end,
// 1 after a failure, 2 if the command line or what it names is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "dev: %v\n", err)
	}
	return serve.ExitCode(err)
}

func run(args []string, stdout, stderr io.Writer) error {
	cmd := &commands{}
	selected, err := command.Parse("dev", "", cmd, args, stdout, stderr)
	switch {
	case errors.Is(err, command.ErrHelp):
		return nil
	case err != nil:
		return serve.Usage(err)
	}
	if cmd.Dir == "" {
		cmd.Dir = filepath.Join(os.TempDir(), fmt.Sprintf("shiplane-dev-%d", os.Getuid()))
	}
	if cmd.Dir, err = filepath.Abs(cmd.Dir); err != nil {
		return serve.Usage(err)
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	verb, _, _ := strings.Cut(selected, " ") // its arguments follow
	switch verb {
	case "up":
		return cmd.Up.run(ctx, args, cmd.Dir, stdout)
	case "upstream":
		return cmd.Upstream.run(ctx, stderr)
	case "down":
		return down(ctx, cmd.Dir, stdout)
	}
	client := control.NewClient(cmd.Dir)
	switch verb {
	case "status":
		return cmd.Status.run(ctx, client, stdout)
	case "logs":
		return cmd.Logs.run(ctx, client, stdout)
	}
	return ask(ctx, client, cmd.order(verb), stdout)
}
