package dev

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/shiplane/limits/dev/internal/control"
	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
)

const (
	tailMax   = 256 << 10              // bytes of the end of a log that are looked at
	linesMax  = 1_000_000              // more than those bytes can hold
	followGap = 200 * time.Millisecond // between two looks at whether a log goes on
)

type logsCommand struct {
	Name   string `arg:"" help:"Name of a process, as status shows it."`
	Follow bool   `env:"-" short:"f" help:"Go on as the log does, until Ctrl-C."`
	Lines  string `env:"-" short:"n" default:"50" placeholder:"N" help:"How many of the last lines, 0 to 1000000, of the last 256 KiB (default 50)."`
}

func (c *logsCommand) run(ctx context.Context, client *control.Client, stdout io.Writer) error {
	var faults command.Faults
	lines := int(faults.Int("lines", c.Lines, 0, linesMax))
	if err := faults.Err(); err != nil {
		return serve.Usage(err)
	}
	status, err := client.Status(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(status.Parts, func(p stack.PartStatus) bool { return p.Name == c.Name })
	if i < 0 {
		return fmt.Errorf("there is no process %q: dev status --all has their names", c.Name)
	}
	log, err := os.Open(status.Parts[i].Log)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := copyEnd(stdout, log, lines); err != nil || !c.Follow {
		return err
	}
	return follow(ctx, stdout, log)
}

// copyEnd copies the last lines of a log, and leaves it at its end.
func copyEnd(to io.Writer, log *os.File, lines int) error {
	info, err := log.Stat()
	if err != nil {
		return err
	}
	if _, err := log.Seek(max(0, info.Size()-tailMax), io.SeekStart); err != nil {
		return err
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return err
	}
	all := slices.Collect(bytes.Lines(text))
	for _, line := range all[max(0, len(all)-lines):] {
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// follow copies what is added to a log, until ctx ends or the log is removed.
func follow(ctx context.Context, to io.Writer, log *os.File) error {
	tick := time.NewTicker(followGap)
	defer tick.Stop()
	for {
		if _, err := io.Copy(to, log); err != nil {
			return err
		}
		if _, err := os.Stat(log.Name()); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
