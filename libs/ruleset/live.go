package ruleset

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/shiplane/limits/libs/filewatch"
)

// Live is the ruleset that is in force, and follows its file. Safe for
// concurrent use.
type Live struct {
	current atomic.Pointer[Ruleset]
	path    string // "" if it comes from no file
	options []Option
	log     *slog.Logger
	text    []byte // what was read last, good or bad; only Run touches it
}

// Open loads the rule file at path. An error names the path and every fault;
// it wraps Faults unless the file could not be read. log is told of reloads.
func Open(path string, log *slog.Logger, options ...Option) (*Live, error) {
	text, err := filewatch.Read(path, FileMax)
	if err != nil {
		return nil, fmt.Errorf("rule file: %w", err)
	}
	live, err := OpenBytes(path, text, options...)
	if err != nil {
		return nil, err
	}
	live.path, live.log = path, log
	return live, nil
}

// OpenBytes loads a rule file that is at hand, such as an embedded one, and
// never changes. name stands for it in errors.
func OpenBytes(name string, text []byte, options ...Option) (*Live, error) {
	set, faults := load(text, nil, options...)
	if len(faults) > 0 {
		return nil, fmt.Errorf("rule file %s: %w", name, faults)
	}
	live := &Live{text: text, options: options}
	live.current.Store(set)
	return live, nil
}

// load is Parse and Compile in one, its faults with their positions.
func load(text []byte, previous *Ruleset, options ...Option) (*Ruleset, Faults) {
	set, positions, faults := Parse(text)
	if set == nil {
		return previous, faults
	}
	next, faults := compile(set, previous, faults, settingsOf(options))
	positions.Locate(faults)
	return next, faults
}

// Current returns the ruleset in force; never nil.
func (l *Live) Current() *Ruleset { return l.current.Load() }

// Run follows the file until ctx ends. A change is in force within a second,
// however the file is replaced; one with faults as far as Compile lets it, and
// a file that cannot be read changes nothing. Each content is logged once. Run
// is called once.
func (l *Live) Run(ctx context.Context) {
	if l.path == "" {
		<-ctx.Done()
		return
	}
	filewatch.Watch(ctx, l.path, FileMax, l.reload)
}

func (l *Live) reload(text []byte, err error) {
	before := l.current.Load()
	if err != nil {
		l.log.Error("rule file cannot be read: the rules in force stay", "path", l.path, "revision", before.Revision(), "error", err)
		return
	}
	if bytes.Equal(text, l.text) {
		return
	}
	l.text = text
	next, faults := load(text, before, l.options...)
	l.current.Store(next)
	switch {
	case len(faults) > 0 && next == before:
		l.log.Error("rule file has faults: the rules in force stay", "path", l.path, "revision", before.Revision(), "error", faults)
	case len(faults) > 0:
		l.log.Error("rule file has faults: what is faulty stays as it was, the rest is in force", "path", l.path, "revision", next.Revision(), "error", faults)
	case next != before:
		l.log.Info("rules reloaded", "path", l.path, "revision", next.Revision(), "rules", len(next.Rules()))
	}
}
