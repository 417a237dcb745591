package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shiplane/limits/dev/internal/control"
	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/dev/internal/statedir"
)

// downTimeout is what the owner has to end everything in order; then it is killed,
// and with it all it has started.
const downTimeout = 30 * time.Second

// downAnswerTimeout is what the owner has to say that it ends, which it says at
// once unless it is stopped.
const downAnswerTimeout = 5 * time.Second

type partCommand struct {
	Name string `arg:"" help:"Name of a process, as status shows it."`
}

type anyPartCommand struct {
	Name string `arg:"" optional:"" help:"Name of a process, as status shows it."`
}

type regionCommand struct {
	Region string `arg:"" help:"Name of a region."`
}

type anyRegionCommand struct {
	Region string `arg:"" optional:"" help:"Name of a region."`
}

type killPrimaryCommand struct {
	Region  string `arg:"" help:"Name of a region."`
	Shard   *int   `arg:"" optional:"" help:"Shard, from 0 on (default 0)."`
	Account string `env:"-" placeholder:"ID" help:"In place of a shard: the one that counts this account."`
}

// Validate is called by kong.
func (c *killPrimaryCommand) Validate() error {
	if c.Shard != nil && c.Account != "" {
		return fmt.Errorf("want shard %d or --account %s, not both", *c.Shard, c.Account)
	}
	return nil
}

// order is what a command asks of the running system.
func (c *commands) order(verb string) stack.Order {
	o := stack.Order{Verb: stack.Verb(verb)}
	switch o.Verb {
	case stack.KillPrimary:
		o.Name, o.Account = c.KillPrimary.Region, c.KillPrimary.Account
		if c.KillPrimary.Shard != nil {
			o.Shard = *c.KillPrimary.Shard
		}
	case stack.Kill:
		o.Name = c.Kill.Name
	case stack.Freeze:
		o.Name = c.Freeze.Name
	case stack.Thaw:
		o.Name = c.Thaw.Name
	case stack.Restart:
		o.Name = c.Restart.Name
	case stack.Partition:
		o.Name = c.Partition.Region
	case stack.Heal:
		o.Name = c.Heal.Region
	}
	return o
}

func ask(ctx context.Context, client *control.Client, order stack.Order, stdout io.Writer) error {
	said, err := client.Do(ctx, order)
	if err != nil {
		return err
	}
	fmt.Fprint(stdout, said)
	return nil
}

func orderDown(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, downAnswerTimeout)
	defer cancel()
	_, err := control.NewClient(dir).Do(ctx, stack.Order{Verb: stack.Down})
	return err
}

// down ends the system that runs in dir and waits until nothing of it is left; of
// one whose owner was killed it clears what is.
func down(ctx context.Context, dir string, stdout io.Writer) error {
	owner, err := statedir.Owner(dir)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(stdout, "nothing is running")
		return nil
	}
	if err != nil {
		return err
	}
	if err := orderDown(ctx, dir); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} { // one that Ctrl-Z has stopped goes on, and ends
			if err := owner.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		}
	}
	waiting, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	if err := owner.Wait(waiting); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := errors.Join(owner.Signal(unix.SIGKILL), owner.Wait(ctx)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(dir); err == nil { // the owner was killed
		left, err := statedir.Open(dir, clearEntry)
		if err != nil {
			return err
		}
		if err := left.Remove(); err != nil {
			return err
		}
	}
	fmt.Fprintln(stdout, "all is down, and nothing is left of it")
	return nil
}
