package filewatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// state is what onChange was told.
type state struct {
	content string
	err     error
}

// file is content that a test sets, in place of one on disk, and what was
// reported of it. Safe for concurrent use.
type file struct {
	mu       sync.Mutex
	now      state
	reads    int
	reported []state
}

func (f *file) set(content string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = state{content, err}
}

func (f *file) read() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	return []byte(f.now.content), f.now.err
}

func (f *file) report(content []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reported = append(f.reported, state{string(content), err})
}

// seen waits until nothing more happens at this time, and returns what was
// reported and the number of reads.
func (f *file) seen() ([]state, int) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.reported), f.reads
}

// followed runs follow, in virtual time, on a file with this content until the
// test ends.
func followed(t *testing.T, content string, hints chan struct{}) *file {
	t.Helper()
	f := &file{now: state{content: content}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		follow(ctx, f.read, hints, f.report)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f
}

// A change is reported once, within a second, without any event.
func TestPollingAloneReportsEachChangeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := followed(t, "one", nil)
		time.Sleep(time.Second)
		want := "one"
		for range 10 {
			want += "+"
			f.set(want, nil)
			time.Sleep(poll + settle)
			got, _ := f.seen()
			if last := got[len(got)-1].content; last != want {
				t.Fatalf("%v after the change: reported %q, want %q", poll+settle, last, want)
			}
		}
		time.Sleep(time.Minute)
		if got, _ := f.seen(); len(got) != 11 {
			t.Errorf("reported %d states, want the first and 10 changes", len(got))
		}
	})
}

// A file that is being written is not reported before it has been left alone.
func TestHalfWrittenContentIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := make(chan struct{}, 100)
		f := followed(t, "old", hints)
		time.Sleep(time.Second)
		whole := ""
		for range 50 {
			whole += "part "
			f.set(whole, nil)
			hints <- struct{}{}
			time.Sleep(settle - time.Millisecond)
		}
		time.Sleep(time.Second)
		if got, _ := f.seen(); len(got) != 2 || got[1].content != whole {
			t.Errorf("reported %d states, the last of %d bytes; want the old and the whole of %d", len(got), len(got[len(got)-1].content), len(whole))
		}
	})
}

// An error that lasts is reported once, and the content again when it is back.
func TestLastingErrorIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := followed(t, "here", nil)
		time.Sleep(time.Second)
		f.set("", errors.New("gone"))
		time.Sleep(time.Minute)
		f.set("here", nil)
		time.Sleep(time.Second)
		got, _ := f.seen()
		if len(got) != 3 || got[1].err == nil || got[2].content != "here" {
			t.Errorf("reported %v, want here, gone, here", got)
		}
	})
}

// A storm of events costs no more reads than looking every settle.
func TestHintsDoNotMultiplyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := make(chan struct{})
		f := followed(t, "same", hints)
		start := time.Now()
		for time.Since(start) < 10*time.Second {
			hints <- struct{}{}
			time.Sleep(time.Millisecond)
		}
		if _, reads := f.seen(); reads > int(10*time.Second/settle)+2 {
			t.Errorf("%d reads in 10 s of hints, want one each %v at most", reads, settle)
		}
	})
}

// When the events end, polling goes on.
func TestClosedHintsLeavePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hints := make(chan struct{})
		f := followed(t, "one", hints)
		close(hints)
		time.Sleep(time.Second)
		f.set("two", nil)
		time.Sleep(time.Second)
		if got, _ := f.seen(); len(got) != 2 {
			t.Errorf("reported %v, want one and two", got)
		}
	})
}

// What is no regular file of the allowed size is refused, and never waited for.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	big, err := os.Create(path("big"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(big.Truncate(100<<20), big.Close(), syscall.Mkfifo(path("pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"big": "has 104857600 bytes: at most 1000 are allowed", "pipe": "is no regular file", ".": "is no regular file", "none": "no such file",
	} {
		if _, err := Read(path(name), 1000); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one that says %q", name, err, want)
		}
	}
}

// A file as long as allowed is read whole.
func TestReadTakesTheLongestAllowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if content, err := Read(path, 1000); err != nil || len(content) != 1000 {
		t.Errorf("%d bytes, error %v; want 1000", len(content), err)
	}
}

// watched is what Watch reports of a file, one state at a call, until the test ends.
func watched(t *testing.T, path string) (next func() state) {
	t.Helper()
	states := make(chan state, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Watch(ctx, path, 1000, func(content []byte, err error) { states <- state{string(content), err} })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() state {
		t.Helper()
		select {
		case s := <-states:
			return s
		case <-time.After(10 * time.Second):
			t.Fatal("nothing reported for 10 s")
			return state{}
		}
	}
}

// Watch follows a real file, by events and polling.
func TestWatchFollowsARealFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	next := watched(t, path)
	if s := next(); !errors.Is(s.err, os.ErrNotExist) {
		t.Fatalf("reported %v, want that there is no file", s)
	}
	if err := os.WriteFile(path, []byte("made"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := next(); s.content != "made" {
		t.Fatalf("reported %v, want made", s)
	}
}

// A mounted ConfigMap is followed: its file is a link to ..data/file, ..data is one to
// a folder of this version, and a change puts another link over ..data and removes
// the old folder. There is no moment without the file to report.
func TestConfigMapIsFollowed(t *testing.T) {
	mount := t.TempDir()
	write := func(version, content string) error {
		return errors.Join(os.Mkdir(filepath.Join(mount, version), 0o700),
			os.WriteFile(filepath.Join(mount, version, "rules.yaml"), []byte(content), 0o600))
	}
	link := func(to, name string) error { return os.Symlink(to, filepath.Join(mount, name)) }
	if err := errors.Join(write("..1", "one"), link("..1", "..data"), link("..data/rules.yaml", "rules.yaml")); err != nil {
		t.Fatal(err)
	}
	next := watched(t, filepath.Join(mount, "rules.yaml"))
	if s := next(); s.content != "one" {
		t.Fatalf("reported %v, want one", s)
	}
	for i, content := range []string{"two", "three"} {
		old, version := fmt.Sprint("..", i+1), fmt.Sprint("..", i+2)
		if err := errors.Join(write(version, content), link(version, "..data_tmp"),
			os.Rename(filepath.Join(mount, "..data_tmp"), filepath.Join(mount, "..data")), os.RemoveAll(filepath.Join(mount, old))); err != nil {
			t.Fatal(err)
		}
		if s := next(); s.content != content || s.err != nil {
			t.Fatalf("reported %v, want %s", s, content)
		}
	}
}
