package statedir_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/shiplane/limits/dev/internal/statedir"
)

func open(t *testing.T, path string) *statedir.Dir {
	t.Helper()
	d, err := statedir.Open(path, os.RemoveAll)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A folder has one owner at a time, who is known to others, and is gone when its
// owner lets go of it.
func TestFolderHasOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := open(t, path)
	if _, err := statedir.Open(path, os.RemoveAll); !errors.Is(err, statedir.ErrRunning) {
		t.Errorf("got %v, want %v", err, statedir.ErrRunning)
	}
	if owner, err := statedir.Owner(path); err != nil || owner.PID != os.Getpid() {
		t.Errorf("the owner is %+v, %v", owner, err)
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is left: %v", err)
	}
	if err := open(t, path).Remove(); err != nil {
		t.Error(err)
	}
}

// What a killed owner has left is cleared; a folder that was never one of these is
// refused, and nothing in it is touched.
func TestOnlyOwnFoldersAreCleared(t *testing.T) {
	path, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	for _, file := range []string{filepath.Join(path, "owner.json"), filepath.Join(path, "left"), kept} {
		if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := statedir.Open(filepath.Dir(kept), os.RemoveAll); err == nil {
		t.Error("another folder was taken")
	}
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("it was emptied: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := statedir.Open(link, os.RemoveAll); err == nil {
		t.Error("a link was followed")
	}
	d := open(t, path)
	defer d.Remove()
	if _, err := os.Lstat(filepath.Join(path, "left")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
}

// A number that another process has now gets no signal meant for the one before,
// and that one is known to have ended.
func TestReusedNumberIsNotSignalled(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	before := statedir.Process{PID: cmd.Process.Pid, Started: "1"}
	if err := before.Signal(unix.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("got %v, want %v", err, os.ErrProcessDone)
	}
	if err := before.Wait(t.Context()); err != nil {
		t.Errorf("it has not ended: %v", err)
	}
	if err := cmd.Process.Signal(unix.Signal(0)); err != nil {
		t.Errorf("the process that has the number now: %v", err)
	}
}

// Processes are found by the folder they work in, and what a killed owner has left
// running there is ended.
func TestProcessesOfAFolderAreEnded(t *testing.T) {
	path := t.TempDir()
	inside := filepath.Join(path, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "1")
	cmd.Dir = inside
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	found, err := statedir.Within(path)
	if err != nil || !slices.ContainsFunc(found, func(p statedir.Process) bool { return p.PID == cmd.Process.Pid }) {
		t.Fatalf("found %+v, %v, want process %d", found, err, cmd.Process.Pid)
	}
	if err := statedir.EndAll(path); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := found[0].Wait(ctx); err != nil {
		t.Errorf("it still runs: %v", err)
	}
	if none, err := statedir.Within(filepath.Join(path, "nowhere")); err != nil || len(none) > 0 {
		t.Errorf("in no folder: %v, %v", none, err)
	}
}
