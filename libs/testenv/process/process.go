// Package process runs servers that end with the process that started them,
// whichever way that ends, and that can be killed, frozen and thawed. It needs
// Linux.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Config says what to run.
type Config struct {
	Args []string            // Args[0] is the program, looked up in PATH if it has no slash
	Dir  string              // working directory; empty: this process's
	Env  []string            // nil: this process's
	User *syscall.Credential // nil: this process's
	Log  string              // file that both outputs are appended to; made with mode 0600

	// Orphaned is the signal that the kernel sends when this process ends
	// without having ended the other; 0 is SIGKILL.
	Orphaned syscall.Signal
}

// Process is a started process, running, frozen or ended. Its methods are safe
// for concurrent use.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; written before done is closed
}

// Start starts a process, in a process group of its own: an interrupt typed at
// the terminal is for this process, which ends the others in order.
func Start(cfg Config) (*Process, error) {
	if len(cfg.Args) == 0 {
		return nil, errors.New("process: no arguments, want the program's name at least")
	}
	log, err := os.OpenFile(cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", cfg.Args[0], err)
	}
	defer log.Close()
	if cfg.Orphaned == 0 {
		cfg.Orphaned = syscall.SIGKILL
	}
	// The life of a server is not the context's of whoever starts it.
	cmd := exec.CommandContext(context.Background(), cfg.Args[0], cfg.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = cfg.Dir, cfg.Env, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cfg.User, Setpgid: true, Pdeathsig: cfg.Orphaned}
	p := &Process{name: cfg.Args[0], cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return p, nil
}

// run starts the process and stays until it has ended. The kernel sends the
// signal for orphans when the thread that forked ends, so that thread is kept
// for as long; waiting blocks a thread anyway.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.done)
	}
}

// PID is the process's number. Once Done it may be another's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the process has not ended. A frozen one runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Err says how the process ended: nil while it runs and after an exit with code 0.
func (p *Process) Err() error {
	if p.Running() {
		return nil
	}
	return p.err
}

// Kill ends the process by SIGKILL, frozen or not. It is gone when Kill returns.
func (p *Process) Kill() {
	p.cmd.Process.Kill() //nolint:errcheck // it fails only if the process has ended
	<-p.done
}

// Stop sends a signal that asks the process to end and waits until it has. If
// ctx ends before, it is killed, and the error wraps the context's.
func (p *Process) Stop(ctx context.Context, signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s by %v: %w", p.name, signal, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.Kill()
		return fmt.Errorf("stop %s by %v: killed: %w", p.name, signal, ctx.Err())
	}
}

// Freeze stops the process by SIGSTOP: its connections stay open and nothing is
// answered, as on a machine that hangs. No instruction of it runs between the
// return of Freeze and Thaw. Its children are not frozen.
func (p *Process) Freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %s: %w", p.name, err)
	}
	var stopped error
	err := p.cmd.Process.WithHandle(func(pidfd uintptr) { stopped = waitStopped(int(pidfd)) })
	if err := errors.Join(err, stopped); err != nil {
		return fmt.Errorf("freeze %s: %w", p.name, err)
	}
	return nil
}

// waitStopped waits until a child has stopped or ended, and leaves its state to
// be waited for again.
func waitStopped(pidfd int) error {
	for {
		err := unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("waitid", err)
		}
	}
}

// Thaw lets a frozen process go on; one that is not frozen notices nothing.
func (p *Process) Thaw() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("thaw %s: %w", p.name, err)
	}
	return nil
}
