package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/shiplane/limits/dev/internal/control"
)

// logFile is where a system that runs behind says what it has to say.
const logFile = "dev.log"

// detach starts this program again, behind, and passes on what it says until it is
// ready: it lets go of its output then, or when it ends.
func detach(ctx context.Context, args []string, dir string, stdout io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	said, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	cmd := exec.CommandContext(ctx, self, append(args[:len(args):len(args)], "--detached")...)
	cmd.Stdout, cmd.Stderr = theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	if _, err := io.Copy(stdout, said); err != nil {
		return err
	}
	if status, err := control.NewClient(dir).Status(ctx); err == nil && status.Took > 0 {
		return cmd.Process.Release()
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("it did not start: %w", err)
	}
	return nil
}

// goBehind sends what this process says to its log from now on; who has started it
// need not wait any longer.
func goBehind(dir string) error {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	return errors.Join(unix.Dup3(int(log.Fd()), unix.Stdout, 0), unix.Dup3(int(log.Fd()), unix.Stderr, 0))
}
