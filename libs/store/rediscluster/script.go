package rediscluster

import (
	_ "embed"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

//go:embed check.lua
var source string

// clock is what a script takes for the time.
type clock struct {
	lua   string // sets now, in µs since store.Epoch
	grace int64  // µs that a key may outlive its counters
}

// serverClock is the server's own. A key outlives its counters by a minute: an
// edit to a slower limit must find what was drained under the faster.
var serverClock = clock{grace: 60e6, lua: `local now = call('TIME')
now = (now[1] - 1767225600) * 1000000 + now[2]`}

// drivenClock lets a test drive the time: it comes as the second argument. The
// server's own clock, by which keys expire, is kept out of it.
var drivenClock = clock{grace: 48 * 3600 * 1e6, lua: `local now = tonumber(ARGV[2])`}

// Bounds of a record: beyond crowded bytes, entries of rules that have not
// counted for longer than any window are dropped.
const (
	recordHeader   = 4
	recordEntry    = 20
	recordCrowded  = recordHeader + 16*recordEntry
	recordStale    = 32 * 24 * 3600 * 1e6        // µs
	recordLongest  = 100 * 365 * 24 * 3600 * 1e3 // ms: a time to live that Redis takes
	recordFarthest = 4e15                        // µs, 126 years: with a grace, an expiry that fits the header
)

// shape is what a script is unrolled for: two bytes an entry, kind and mode,
// and whether the ask gives back. Scripts are few: an ask's entries are sorted.
type shape struct {
	entries [2 * store.EntriesMax]byte
	length  uint8
	gives   bool
}

const (
	kindBucket = 't'
	kindWindow = 'w'
	kindLog    = 'z'

	modeEnforce = 'e'
	modeShadow  = 's'
)

// add adds an entry.
func (sh *shape) add(r *limit.Rule) {
	mode := byte(modeEnforce)
	if r.Mode == limit.Shadow {
		mode = modeShadow
	}
	sh.entries[sh.length], sh.entries[sh.length+1] = kindOf(r), mode
	sh.length += 2
}

// String returns the entries' bytes.
func (sh *shape) String() string { return string(sh.entries[:sh.length]) }

// kindOf is an entry's byte in a shape.
func kindOf(r *limit.Rule) byte {
	switch r.Algorithm {
	case limit.FixedWindow:
		return kindWindow
	case limit.SlidingLog:
		return kindLog
	}
	return kindBucket
}

// scripts renders the template for each shape once. Safe for concurrent use.
type scripts struct {
	clock    clock
	template *template.Template
	mu       sync.Mutex
	known    atomic.Pointer[map[shape]*script] // never changed, but replaced under mu
}

// script is the source for one shape and its name in the server's cache.
type script struct {
	text, sha string
	record    bool // it has one; else logs alone
}

func newScripts(clock clock) (*scripts, error) {
	t, err := template.New("check.lua").Delims("[[", "]]").Option("missingkey=error").Parse(source)
	if err != nil {
		return nil, fmt.Errorf("check.lua: %w", err)
	}
	s := &scripts{clock: clock, template: t}
	s.known.Store(&map[shape]*script{})
	return s, nil
}

// entryView is an entry as the template sees it.
type entryView struct {
	N                           int
	Bucket, Window, Log, Shadow bool
	Key                         int // a log's, in KEYS
	Params                      string
}

type scriptView struct {
	Clock             string
	Grace             int64
	Entries, InRecord []entryView
	Gives, Record     bool
	Format            string
	RecordSize        int
	Crowded           int
	Stale             int64
	Longest           int64 // TTL in ms
	Farthest          int64 // µs
}

func (s *scripts) of(sh shape) (*script, error) {
	if known := (*s.known.Load())[sh]; known != nil {
		return known, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made, err := s.render(sh)
	if err != nil {
		return nil, err
	}
	known := maps.Clone(*s.known.Load())
	known[sh] = made
	s.known.Store(&known)
	return made, nil
}

func (s *scripts) render(sh shape) (*script, error) {
	v := scriptView{Clock: s.clock.lua, Grace: s.clock.grace, Gives: sh.gives, Format: "<", Crowded: recordCrowded, Stale: recordStale, Longest: recordLongest, Farthest: recordFarthest}
	key := 1
	if strings.ContainsAny(sh.String(), "tw") {
		key = 2
	}
	logs := 0
	for i := 0; i < int(sh.length); i += 2 {
		e := entryView{N: i/2 + 1, Shadow: sh.entries[i+1] == modeShadow}
		var names, format string
		switch sh.entries[i] {
		case kindBucket:
			e.Bucket, names, format = true, "t R B m q", "I4dddd"
		case kindWindow:
			e.Window, names, format = true, "t L C m q", "I4dddd"
		default:
			e.Log, names, format = true, "x L C m q", "c8dddd"
			e.Key = key + logs
			logs++
		}
		if sh.gives {
			names, format = names+" y f", format+"dd"
		}
		var params []string
		for _, name := range strings.Fields(names) {
			params = append(params, fmt.Sprint(name, e.N))
		}
		e.Params = strings.Join(params, ", ")
		v.Format += format
		v.Entries = append(v.Entries, e)
		if !e.Log {
			v.InRecord = append(v.InRecord, e)
		}
	}
	v.Record = len(v.InRecord) > 0
	v.RecordSize = recordHeader + len(v.InRecord)*recordEntry
	var text strings.Builder
	if err := s.template.Execute(&text, &v); err != nil {
		return nil, fmt.Errorf("check.lua for shape %q: %w", sh.String(), err)
	}
	return &script{text: text.String(), sha: sha1Hex(text.String()), record: v.Record}, nil
}
