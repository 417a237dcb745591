package ruleset

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/limit"
)

// reader fills messages from YAML by their descriptors, so that the file has
// the fields of the contract and no others, and notes where each of them stood.
type reader struct {
	positions Positions
	faults    Faults
}

// serverSet are the fields that a server sets, and a file may not.
var serverSet = map[protoreflect.FullName]bool{
	"shiplane.rules.v1.Ruleset.revision":   true,
	"shiplane.rules.v1.Ruleset.candidates": true,
	"shiplane.rules.v1.Rule.version":       true,
	"shiplane.rules.v1.Route.version":      true,
	"shiplane.rules.v1.Override.id":        true,
}

// misplaced faults a key for standing there.
func (r *reader) misplaced(path string, key ast.Node, problem string, args ...any) {
	f := Fault{Path: path, Problem: fmt.Sprintf(problem, args...)}
	f.place(key.GetToken())
	r.faults = append(r.faults, f)
}

// fault faults a value.
func (r *reader) fault(path string, node ast.Node, problem string) {
	f := Fault{Path: path, Problem: problem}
	if node != nil {
		if text, ok := textOf(node); ok {
			f.Value = show(text)
		}
		f.place(node.GetToken())
	}
	r.faults = append(r.faults, f)
}

// mark notes that path stands where node does.
func (r *reader) mark(path string, node ast.Node) {
	var f Fault
	if f.place(node.GetToken()); f.Line > 0 {
		r.positions[path] = Position{f.Line, f.Column}
	}
}

// message reads a mapping into m.
func (r *reader) message(path string, node ast.Node, m protoreflect.Message) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		if node != nil || path != "" { // an empty file lacks rules, which is said elsewhere
			r.fault(path, node, "want a mapping of "+fieldNames(m.Descriptor()))
		}
		return
	}
	seen := map[string]int{}
	for entry := mapping.MapRange(); entry.Next(); {
		key := entry.Key()
		name := key.GetToken().Value
		field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		at := strings.TrimPrefix(path+"."+name, ".")
		switch line, twice := seen[name]; {
		case field == nil:
			r.misplaced(path, key, "has an unknown field, %s: want one of %s", show(name), fieldNames(m.Descriptor()))
		case serverSet[field.FullName()]:
			r.misplaced(at, key, "is set by the server, not by a file")
		case twice:
			r.misplaced(at, key, "stands twice, first in line %d", line)
		default:
			seen[name] = key.GetToken().Position.Line
			r.mark(at, key)
			r.field(at, entry.Value(), m, field)
		}
	}
}

// fieldNames lists what a file may set in a message.
func fieldNames(d protoreflect.MessageDescriptor) string {
	var names []string
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); !serverSet[f.FullName()] {
			names = append(names, string(f.Name()))
		}
	}
	return strings.Join(names, ", ")
}

// field reads the value of one field of m.
func (r *reader) field(path string, node ast.Node, m protoreflect.Message, field protoreflect.FieldDescriptor) {
	if _, null := node.(*ast.NullNode); null || node == nil {
		if !field.IsList() { // a list whose entries are all commented out is empty
			r.fault(path, nil, "has no value")
		}
		return
	}
	if !field.IsList() {
		r.mark(path, node)
		if v, err := scalar(node, field); err != nil {
			r.fault(path, node, err.Error())
		} else {
			m.Set(field, v)
		}
		return
	}
	entries := []ast.Node{node} // a text may stand for a list of it
	if sequence, ok := node.(*ast.SequenceNode); ok {
		entries = sequence.Values
	} else if field.Message() != nil {
		r.fault(path, node, "want a list")
		return
	}
	list := m.Mutable(field).List()
	for i, entry := range entries {
		r.entry(fmt.Sprintf("%s[%d]", path, i), entry, list, field)
	}
}

// entry reads one entry of a list. One that cannot be read is added empty, so
// that the others keep their numbers.
func (r *reader) entry(path string, node ast.Node, list protoreflect.List, field protoreflect.FieldDescriptor) {
	v := list.NewElement()
	if node != nil {
		r.mark(path, node)
	}
	if field.Message() != nil {
		r.message(path, node, v.Message())
	} else if read, err := scalar(node, field); err != nil {
		r.fault(path, node, err.Error())
	} else {
		v = read
	}
	list.Append(v)
}

// scalar returns the value of a node for a field. The error says what is wanted.
func scalar(node ast.Node, field protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	text, ok := textOf(node)
	if !ok {
		return v, errors.New("want a single value")
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.EnumKind:
		return enumValue(text, field.Enum())
	case protoreflect.DoubleKind: // every number that is not whole is a rate
		rate, err := parseRate(text)
		return protoreflect.ValueOfFloat64(rate), err
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
		if _, whole := node.(*ast.IntegerNode); !whole || err != nil {
			return v, errors.New("want a whole number")
		}
		return protoreflect.ValueOfInt64(n), nil
	case protoreflect.BoolKind:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			return v, errors.New("want true or false")
		}
		return protoreflect.ValueOfBool(b.Value), nil
	}
	return messageValue(text, field.Message())
}

// messageValue reads the messages that a file writes as one text.
func messageValue(text string, d protoreflect.MessageDescriptor) (v protoreflect.Value, err error) {
	switch d.FullName() {
	case "google.protobuf.Duration":
		length, err := parseDuration(text)
		return protoreflect.ValueOfMessage(durationpb.New(length).ProtoReflect()), err
	case "google.protobuf.Timestamp":
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return v, errors.New("want a time as in 2026-11-27T00:00:00Z")
		}
		stamp := timestamppb.New(at)
		if !stamp.IsValid() {
			return v, errors.New("want a time of the years 1 to 9999, in UTC")
		}
		return protoreflect.ValueOfMessage(stamp.ProtoReflect()), nil
	}
	return v, fmt.Errorf("want no %s in a file", d.Name())
}

// textOf returns the text of a single value, false for a list or mapping.
func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// enumValue finds "token_bucket" as ALGORITHM_TOKEN_BUCKET.
func enumValue(text string, d protoreflect.EnumDescriptor) (v protoreflect.Value, err error) {
	var known []string
	prefix := strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
	for i := range d.Values().Len() {
		value := d.Values().Get(i)
		name := strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))
		if value.Number() == 0 {
			continue
		}
		if name == text {
			return protoreflect.ValueOfEnum(value.Number()), nil
		}
		known = append(known, name)
	}
	last := len(known) - 1
	return v, errors.New("want " + strings.TrimPrefix(strings.Join(known[:last], ", ")+" or "+known[last], " or "))
}

func parseRate(text string) (float64, error) {
	rate, err := limit.ParseRate(text)
	if err == nil {
		return float64(rate), nil
	}
	if outside := errors.Unwrap(err); outside != nil {
		return 0, outside
	}
	return 0, errors.New("want a number and a unit, as in 10/s, 5/m, 100/h or 1/d")
}

// daysMax keeps days within a time.Duration, far above any window.
const daysMax = 10_000

// parseDuration reads Go's syntax, with days before it: 90s, 24h, 7d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	wrong := errors.New("want a duration, as in 90s, 24h or 7d")
	days, rest, ok := strings.Cut(text, "d")
	if !ok && text != "" {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 32)
	if err != nil || n > daysMax {
		return 0, wrong
	}
	length := time.Duration(n) * 24 * time.Hour
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil {
			return 0, wrong
		}
		length += more
	}
	return length, nil
}
