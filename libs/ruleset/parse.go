package ruleset

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// DomainDefault is the domain of a rule file that names none.
const DomainDefault = "public-api"

// FileMax is the most bytes that a rule file may have: 1 MiB.
const FileMax = 1 << 20

// Bounds of shape. The parser calls itself for each level, and takes time in
// the square of levels, of the keys of a mapping and, where a text is not YAML,
// of its tokens. A rule file needs 3 levels, 14 keys and some 25 tokens a rule.
const (
	tokensMax    = 100_000
	flowDepthMax = 16 // open brackets
	columnMax    = 64 // column of a dash or key outside of brackets: each level is further right
	keysMax      = 64 // of one mapping outside of brackets
)

// Parse reads a rule file, UTF-8 with or without a byte order mark. Every fault
// of its form is found: fields that are unknown or stand twice, values that
// cannot be read. The ruleset holds what could be read, nil if nothing could;
// positions say where it stood. Bounds and names are Compile's to check.
func Parse(text []byte) (*rulesv1.Ruleset, Positions, Faults) {
	if len(text) > FileMax {
		return nil, nil, Faults{{Problem: fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), FileMax)}}
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if fault := notText(text); fault != nil {
		return nil, nil, Faults{*fault}
	}
	body, faults := parseYAML(string(text))
	if len(faults) > 0 {
		return nil, nil, faults
	}
	r := reader{positions: Positions{}}
	set := &rulesv1.Ruleset{}
	r.message("", body, set.ProtoReflect())
	if set.Domain == "" && r.positions["domain"] == (Position{}) {
		set.Domain = DomainDefault
	}
	if len(set.Rules) == 0 {
		r.faults = append(r.faults, Fault{Path: "rules", Problem: "is missing or empty: want at least one rule"})
	}
	r.positions.Locate(r.faults)
	return set, r.positions, r.faults
}

// notText reports the first byte that is not UTF-8, or is a control character
// that YAML does not allow.
func notText(text []byte) *Fault {
	line, column := 1, 1
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		switch {
		case c == utf8.RuneError && size == 1:
			return &Fault{Line: line, Column: column, Value: fmt.Sprintf("byte %#02x", text[0]), Problem: "want UTF-8"}
		case c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f:
			return &Fault{Line: line, Column: column, Value: fmt.Sprintf("control character %#02x", c), Problem: "want text"}
		}
		text, column = text[size:], column+1
		if c == '\n' {
			line, column = line+1, 1
		}
	}
	return nil
}

// parseYAML returns the root of the only document, nil if it is empty.
func parseYAML(text string) (ast.Node, Faults) {
	tokens := lexer.Tokenize(text)
	if len(tokens) > tokensMax {
		return nil, Faults{{Problem: fmt.Sprintf("has %d words and signs: at most %d are allowed, some 4000 rules and overrides", len(tokens), tokensMax)}}
	}
	if faults := refuse(tokens); len(faults) > 0 {
		return nil, faults
	}
	// Keys that stand twice are found by the reader, all of them.
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		fault := Fault{Problem: "is no valid YAML: " + err.Error()}
		if at := yaml.Error(nil); errors.As(err, &at) {
			fault.Problem = "is no valid YAML: " + at.GetMessage()
			fault.place(at.GetToken())
		}
		return nil, Faults{fault}
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body == nil:
			body = doc.Body
		default:
			fault := Fault{Problem: "has a second document: want one"}
			fault.place(doc.Body.GetToken())
			return nil, Faults{fault}
		}
	}
	return body, nil
}

// refuse faults what a rule file has no use for and a parser can be led astray
// by.
func refuse(tokens token.Tokens) (faults Faults) {
	var shape shape
	for _, tk := range tokens {
		problem := shape.add(tk)
		switch tk.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			problem = "anchors, aliases and merge keys are not supported"
		case token.TagType, token.DirectiveType:
			problem = "tags and directives are not supported"
		case token.MappingKeyType:
			problem = "keys with a question mark are not supported"
		}
		if problem == "" {
			continue
		}
		fault := Fault{Value: show(strings.TrimSpace(tk.Value)), Problem: problem}
		fault.place(tk)
		if faults = append(faults, fault); len(faults) == faultsShown {
			break
		}
	}
	return faults
}

// shape follows how deep and wide a document is.
type shape struct {
	flow   int // open brackets
	colons int // since the last bracket or comma
	keys   []struct{ column, count int }
}

// add takes the next token, and says what is wrong with the shape, once for
// each time that a bound is passed.
func (s *shape) add(tk *token.Token) string {
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		s.colons = 0
		if s.flow++; s.flow == flowDepthMax+1 {
			return fmt.Sprintf("brackets are nested deeper than %d levels", flowDepthMax)
		}
	case token.SequenceEndType, token.MappingEndType:
		s.colons = 0
		s.flow--
	case token.CollectEntryType:
		s.colons = 0
	case token.SequenceEntryType:
		return s.enter(tk, 0)
	case token.MappingValueType:
		if s.colons++; s.flow > 0 && s.colons == 2 {
			return "follows another key: want a comma or bracket between them"
		}
		if s.flow <= 0 && tk.Prev != nil {
			return s.enter(tk.Prev, 1)
		}
	}
	return ""
}

// enter takes a dash or a key, which ends all mappings that begin right of it.
func (s *shape) enter(tk *token.Token, keys int) string {
	column := tk.Position.Column
	for len(s.keys) > 0 && s.keys[len(s.keys)-1].column > column {
		s.keys = s.keys[:len(s.keys)-1]
	}
	if column > columnMax {
		return fmt.Sprintf("begins right of column %d", columnMax)
	}
	if keys == 0 {
		return ""
	}
	if len(s.keys) == 0 || s.keys[len(s.keys)-1].column < column {
		s.keys = append(s.keys, struct{ column, count int }{column, 0})
	}
	top := &s.keys[len(s.keys)-1]
	if top.count++; top.count == keysMax+1 {
		return fmt.Sprintf("a mapping has more than %d keys", keysMax)
	}
	return ""
}

// place sets where the fault is to where a token stands.
func (f *Fault) place(tk *token.Token) {
	if tk != nil && tk.Position != nil {
		f.Line, f.Column = tk.Position.Line, tk.Position.Column
	}
}
