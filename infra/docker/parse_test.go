package docker

import (
	"regexp"
	"strings"
)

// instruction is a line of a Dockerfile, with its continuations: as USER 65532.
type instruction struct{ name, args string }

// stage is what begins with a FROM.
type stage struct {
	name, from string // "" for no name
	lines      []instruction
}

// file is a Dockerfile: the arguments before its first stage, and its stages.
type file struct {
	args   map[string]string
	stages []*stage
}

var (
	comment = regexp.MustCompile(`(?m)^\s*#.*\n`)
	folded  = regexp.MustCompile(`\\\n\s*`)
)

// parse reads a Dockerfile without heredocs and other escapes than \ at a line's end.
func parse(text string) *file {
	f := &file{args: map[string]string{}}
	text = folded.ReplaceAllString(comment.ReplaceAllString(text, ""), " ")
	for line := range strings.Lines(text) {
		name, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		in := instruction{strings.ToUpper(name), strings.TrimSpace(args)}
		switch {
		case in.name == "FROM":
			f.stages = append(f.stages, newStage(in.args))
		case len(f.stages) > 0:
			last := f.stages[len(f.stages)-1]
			last.lines = append(last.lines, in)
		case in.name == "ARG":
			name, value, _ := strings.Cut(in.args, "=")
			f.args[name] = value
		}
	}
	return f
}

func newStage(args string) *stage {
	words := strings.Fields(args)
	s := &stage{}
	if len(words) > 2 && strings.EqualFold(words[len(words)-2], "AS") {
		s.name, words = words[len(words)-1], words[:len(words)-2]
	}
	s.from = strings.Join(words, " ")
	return s
}

// stage returns the stage of that name, nil for none.
func (f *file) stage(name string) *stage {
	for _, s := range f.stages {
		if s.name == name {
			return s
		}
	}
	return nil
}

// all returns the arguments of a stage's instructions of one kind, those of the
// stages that it is made from first.
func (f *file) all(s *stage, kind string) (args []string) {
	if s == nil {
		return nil
	}
	if below := f.stage(s.from); below != s {
		args = f.all(below, kind)
	}
	for _, in := range s.lines {
		if in.name == kind {
			args = append(args, in.args)
		}
	}
	return args
}
