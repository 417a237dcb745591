package statedir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process that is told from a later one with the same number.
type Process struct {
	PID     int    `json:"pid"`
	Started string `json:"started"` // ticks from the machine's start on
}

// Self is this process.
func Self() (Process, error) {
	started, err := startOf(os.Getpid())
	return Process{PID: os.Getpid(), Started: started}, err
}

// startedField is the number of a process's start among what follows its name in
// /proc/PID/stat, which is field 22 of proc(5).
const startedField = 19

func startOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	name := bytes.LastIndexByte(text, ')') // it may hold anything, and ends with the last one
	fields := strings.Fields(string(text[name+1:]))
	if len(fields) <= startedField {
		return "", fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	return fields[startedField], nil
}

// Signal sends a signal to this very process: os.ErrProcessDone if it has ended,
// also where its number is another's now.
func (p Process) Signal(signal unix.Signal) error {
	return p.with(func(pidfd int) error { return unix.PidfdSendSignal(pidfd, signal, nil, 0) })
}

// Wait waits until the process has ended, or ctx has.
func (p Process) Wait(ctx context.Context) error {
	err := p.with(func(pidfd int) error { return ended(ctx, pidfd) })
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// with calls do with a handle of the process. The number is looked at after the
// handle is taken: from then on it cannot become another's.
func (p Process) with(do func(pidfd int) error) error {
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	if started, err := startOf(p.PID); err != nil || started != p.Started {
		return os.ErrProcessDone
	}
	if err := do(pidfd); errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	} else if err != nil {
		return err
	}
	return nil
}

// look is the time between two looks at a context, in ms.
const look = 50

func ended(ctx context.Context, pidfd int) error {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, look)
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return os.NewSyscallError("poll", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// Within returns the processes that work in the folder or below it: all that a
// system has started do, and nothing else has a reason to.
func Within(path string) ([]Process, error) {
	path, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, link := range links {
		folder, err := os.Readlink(link)
		if err != nil || folder != path && !strings.HasPrefix(folder, path+"/") {
			continue // it has ended, is another user's, or is elsewhere
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			return nil, err
		}
		if started, err := startOf(pid); err == nil && pid != os.Getpid() {
			found = append(found, Process{PID: pid, Started: started})
		}
	}
	return found, nil
}

// endAllWithin is for what a killed owner's servers take to end; then they are killed.
const endAllWithin = 10 * time.Second

// EndAll waits until no process works in the folder, and kills what does not end:
// the kernel has told them to when their owner ended.
func EndAll(path string) error {
	processes, err := Within(path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endAllWithin)
	defer cancel()
	for _, p := range processes {
		if err := p.Wait(ctx); err == nil {
			continue
		}
		if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("process %d, which a system that was killed has left: %w", p.PID, err)
		}
	}
	return nil
}
