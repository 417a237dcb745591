package feed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/ruleset"
)

const (
	// saveAfter is how long a change waits to be written, and what comes meanwhile is
	// written with it: to write takes time by the size of the whole.
	saveAfter = 3 * time.Second
	// saveRetry is the wait after a copy that could not be written.
	saveRetry = time.Minute
)

// start puts the copy on disk in force, if there is a good one. A bad one is told of
// and left alone: the service has the rules.
func (f *Feed) start() {
	if f.cfg.Copy == "" {
		return
	}
	last, from, err := f.readCopy()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		f.log.Error("the copy of the rules on disk is not used", "path", f.cfg.Copy, "error", err)
		return
	}
	f.adopt(last)
	f.saved = last.rules
	f.log.Info("the rules of the copy on disk are in force until the service is heard",
		"path", f.cfg.Copy, "revision", last.rules.Revision(), "rules", len(last.rules.Rules()), "age", time.Since(from).Round(time.Second))
}

// readCopy returns what was in force, and when.
func (f *Feed) readCopy() (last state, from time.Time, err error) {
	text, err := filewatch.Read(f.cfg.Copy, copyMax)
	if err != nil {
		return last, from, err
	}
	c, err := decodeCopy(text)
	if err != nil {
		return last, from, err
	}
	if domain := c.rules.GetDomain(); domain != f.cfg.Domain {
		return last, from, fmt.Errorf("is of domain %q, not %q", domain, f.cfg.Domain)
	}
	rules, faults := ruleset.Compile(c.rules, f.empty, f.cfg.Options...)
	if rules == f.empty {
		return last, from, faults
	}
	last = state{rules, refused{}}
	if !c.whole {
		last.refused.add(whole, "the copy on disk lacks what was refused before the start")
	}
	for _, fault := range faults { // of an older program that took it
		last.refused.add(itemOfSet(c.rules, fault.Path), textOf(fault))
	}
	return last, c.saved, nil
}

// keepCopies writes what is in force a while after it has changed, until ctx ends, and
// then once more.
func (f *Feed) keepCopies(ctx context.Context) {
	if f.cfg.Copy == "" {
		return
	}
	failing := false
	save := func() {
		err := f.saveCopy()
		if err != nil && !failing {
			f.log.Error("the rules cannot be kept on disk: after a restart while the service is away they would be missing",
				"path", f.cfg.Copy, "error", err)
		}
		failing = err != nil
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-f.changed:
			rest(ctx, saveAfter)
		}
		for save(); failing && ctx.Err() == nil; save() {
			rest(ctx, saveRetry)
		}
	}
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// saveCopy writes what is in force, if it is not what was written last.
func (f *Feed) saveCopy() error {
	now := f.current.Load()
	if now.rules == nil || now.rules == f.saved {
		return nil
	}
	text, err := (&copyOnDisk{rules: now.rules.Source(), saved: time.Now(), whole: len(now.refused) == 0}).encode()
	if err != nil {
		return err
	}
	if err := replaceFile(f.cfg.Copy, text); err != nil {
		return err
	}
	f.saved = now.rules
	return nil
}

// replaceFile writes a file that only its owner can read; after a crash at any moment
// there is the old one or the new one, whole.
func replaceFile(path string, text []byte) (err error) {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	// So that the rename outlives a power cut, where the file system can say so.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}
