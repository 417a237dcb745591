package ruleset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a ruleset.
type Fault struct {
	Path         string // where, as in rules[3].rate; "" is the ruleset itself
	Line, Column int    // where in the file, from 1; 0 if it came from none
	Value        string // what stands there, quoted and shortened if it is text; "" if nothing does
	Problem      string // what is wrong with it, and what is allowed
}

// String returns "12:5: rules[3].burst is 0: want 1 to 1000000000".
func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", f.Line, f.Column)
	}
	b.WriteString(cmp.Or(f.Path, "ruleset"))
	if f.Value != "" {
		b.WriteString(" is " + f.Value)
	}
	b.WriteString(": " + f.Problem)
	return b.String()
}

// Faults is everything that is wrong with a ruleset; an empty one is no error.
type Faults []Fault

// faultsShown bounds the length of an error: a file of a megabyte can hold a
// hundred thousand faults, and nobody reads them all.
const faultsShown = 100

// Error lists the faults, each on a line of its own, at most 100 of them.
func (f Faults) Error() string {
	if len(f) == 1 {
		return f[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d faults", len(f))
	for _, fault := range f[:min(len(f), faultsShown)] {
		b.WriteString("\n  " + fault.String())
	}
	if more := len(f) - faultsShown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
}

// structural reports whether a fault leaves open which rule or override is
// meant, so that no last good version can stand in for it.
func (f Fault) structural() bool {
	item := itemOf(f.Path)
	if item == "" {
		return true
	}
	field := strings.TrimPrefix(f.Path, item)
	if strings.HasPrefix(item, "candidates[") {
		return false // one that cannot be told is left out
	}
	if strings.HasPrefix(item, "rules[") {
		return field == ".id"
	}
	return field == ".rule" || field == ".key"
}

// itemOf returns the rule, override or candidate that a path leads into, "rules[3]" of
// "rules[3].rate", or "" for any other path.
func itemOf(path string) string {
	end := strings.IndexByte(path, ']')
	if end < 0 || !strings.HasPrefix(path, "rules[") && !strings.HasPrefix(path, "overrides[") && !strings.HasPrefix(path, "candidates[") {
		return ""
	}
	return path[:end+1]
}

// parentOf returns the path without its last step, "" above the outermost.
func parentOf(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// Position is a place in a rule file; lines and columns count from 1.
type Position struct{ Line, Column int }

// Positions says where in a file each path of a ruleset stands.
type Positions map[string]Position

// Locate gives each fault without a position that of its path, or of the
// nearest thing around it that the file holds, and sorts them by position.
func (p Positions) Locate(faults Faults) {
	for i := range faults {
		f := &faults[i]
		for path := f.Path; f.Line == 0; path = parentOf(path) {
			at, ok := p[path]
			if ok {
				f.Line, f.Column = at.Line, at.Column
			} else if path == "" {
				break
			}
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// valueShown bounds the text of a value in a fault, in bytes.
const valueShown = 60

// show returns a value as a fault names it.
func show(value any) string {
	text, ok := value.(string)
	if !ok {
		return fmt.Sprint(value)
	}
	if len(text) > valueShown {
		return fmt.Sprintf("%.*q…", valueShown, text)
	}
	return fmt.Sprintf("%q", text)
}
