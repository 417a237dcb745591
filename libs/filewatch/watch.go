// Package filewatch reads a small file and follows it, however it is replaced:
// written in place, renamed over, deleted and made again, or swapped behind a
// symbolic link as Kubernetes does with a ConfigMap.
//
// The content is the truth: the file is read twice a second and compared, so
// that neither a time stamp nor a file system without change events can hide an
// edit. Events only make it quicker. What was read must stay the same for a
// moment before it is reported, since a file that is written in place can be
// seen half written, and half a file may be a valid one.
package filewatch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A change is seen within poll, and reported settle later: 650 ms at most, plus
// the time to read the file.
const (
	poll   = 500 * time.Millisecond
	settle = 150 * time.Millisecond // a writer that pauses longer within one write is taken to be done; one that never does is not reported
)

// Read returns the content of the regular file at path. A file of more than
// maxBytes is refused without being read to its end. Errors name the path.
func Read(path string, maxBytes int64) ([]byte, error) {
	// Asked before it is opened: to open a named pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s has %d bytes: at most %d are allowed", path, info.Size(), maxBytes)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > maxBytes {
		return nil, fmt.Errorf("%s has more than %d bytes, which is the most allowed", path, maxBytes)
	}
	return content, nil
}

// Watch calls onChange with what Read returns for the file at path: soon after
// it begins, then within a second of each change, until ctx ends. An error (a
// file that is missing, or too long) is reported once, not each time it is met.
// The calls come one at a time, on Watch's own goroutine; the content is
// onChange's to keep and not to modify.
func Watch(ctx context.Context, path string, maxBytes int64, onChange func(content []byte, err error)) {
	// The directory, not the file: a watched file that is replaced is not seen
	// again. Without events (no such directory, too many watches, a queue that
	// overflowed) polling alone keeps the promise.
	var hints <-chan fsnotify.Event
	if events, err := fsnotify.NewWatcher(); err == nil {
		defer events.Close()
		if events.Add(filepath.Dir(path)) == nil {
			hints = events.Events
		}
	}
	read := func() ([]byte, error) { return Read(path, maxBytes) }
	follow(ctx, read, hints, onChange)
}

// follow is Watch over any source of content and of hints that it has changed.
func follow[Hint any](ctx context.Context, read func() ([]byte, error), hints <-chan Hint, onChange func([]byte, error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	// seen is what the last look found, reported what onChange knows. soon: the
	// next look is settle away, so that many hints cause no more looks than one.
	var seen, reported *look
	soon := true
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-hints:
			if !open {
				hints = nil
			} else if !soon {
				soon = true
				timer.Reset(settle)
			}
			continue
		case <-timer.C:
		}
		last := seen
		seen = newLook(read())
		settled := seen.equal(last)
		if settled && !seen.equal(reported) {
			reported = seen
			onChange(seen.content, seen.err)
		}
		if soon = !settled; soon {
			timer.Reset(settle)
		} else {
			timer.Reset(poll)
		}
	}
}

// look is what reading the file came to.
type look struct {
	content []byte
	err     error
}

func newLook(content []byte, err error) *look { return &look{content, err} }

func (l *look) equal(other *look) bool {
	if other == nil || (l.err == nil) != (other.err == nil) {
		return false
	}
	if l.err != nil {
		return l.err.Error() == other.err.Error()
	}
	return bytes.Equal(l.content, other.content)
}
