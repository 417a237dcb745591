package rest

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// parameter is one that the query of an operation may have.
type parameter struct {
	name  string
	path  []protoreflect.FieldDescriptor // from the request to the field
	field protoreflect.FieldDescriptor   // the last of path
}

// parametersOf returns a parameter for each field of the request that is neither
// in the path nor in the body nor in a header field, those of Write included.
func parametersOf(o *operation) []parameter {
	var found []parameter
	fields := o.request.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name := string(f.Name())
		switch {
		case name == o.id || name == o.body || o.body == ".":
		case name == "write":
			inner := f.Message().Fields()
			for j := range inner.Len() {
				if g := inner.Get(j); g.Name() != "expected_version" {
					found = append(found, parameter{string(g.Name()), []protoreflect.FieldDescriptor{f, g}, g})
				}
			}
		default:
			found = append(found, parameter{name, []protoreflect.FieldDescriptor{f}, f})
		}
	}
	return found
}

// bind fills a request from the path's id and the query.
func (o *operation) bind(q proto.Message, query, id string) error {
	if err := text(id); err != nil {
		return problemf(http.StatusBadRequest, codeBadRequest, "the id in the path: %v", err)
	}
	if o.id != "" {
		setText(q.ProtoReflect(), o.id, id)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return problemf(http.StatusBadRequest, codeBadRequest, "the query cannot be read: %v", err)
	}
	var wrong []violation
	for _, p := range o.parameters {
		given := values[p.name]
		delete(values, p.name)
		if len(given) == 0 {
			continue
		}
		if err := p.set(q.ProtoReflect(), given); err != nil {
			wrong = append(wrong, violation{p.name, shown(given[0]), err.Error()})
		}
	}
	for name := range values {
		wrong = append(wrong, violation{shown(name), "", "is no parameter of this path: want " + o.parameterNames()})
	}
	if len(wrong) > 0 {
		return invalid(http.StatusBadRequest, codeBadRequest, sorted(wrong))
	}
	return nil
}

func (o *operation) parameterNames() string {
	if len(o.parameters) == 0 {
		return "none"
	}
	names := make([]string, len(o.parameters))
	for i, p := range o.parameters {
		names[i] = p.name
	}
	return "one of " + strings.Join(names, ", ")
}

// set puts a parameter's only value into its field.
func (p *parameter) set(m protoreflect.Message, given []string) error {
	if len(given) > 1 {
		return fmt.Errorf("stands %d times: want it once", len(given))
	}
	value, err := parse(p.field, given[0])
	if err != nil {
		return err
	}
	for _, step := range p.path[:len(p.path)-1] {
		m = m.Mutable(step).Message()
	}
	m.Set(p.field, value)
	return nil
}

// parse reads a parameter of a kind that requests have. The error says what is
// wanted.
func parse(field protoreflect.FieldDescriptor, given string) (v protoreflect.Value, err error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(given), text(given)
	case protoreflect.BoolKind:
		if given != "true" && given != "false" {
			return v, errors.New("want true or false")
		}
		return protoreflect.ValueOfBool(given == "true"), nil
	case protoreflect.EnumKind:
		names := enumNames(field.Enum())
		for i, name := range names {
			if name == given {
				return protoreflect.ValueOfEnum(field.Enum().Values().Get(i + 1).Number()), nil
			}
		}
		return v, errors.New("want one of " + strings.Join(names, ", "))
	case protoreflect.Int32Kind:
		n, err := strconv.ParseInt(given, 10, 32)
		if err != nil {
			return v, errors.New("want a whole number")
		}
		return protoreflect.ValueOfInt32(int32(n)), nil
	case protoreflect.Int64Kind:
		n, err := strconv.ParseInt(given, 10, 64)
		if err != nil {
			return v, errors.New("want a whole number")
		}
		return protoreflect.ValueOfInt64(n), nil
	}
	return v, fmt.Errorf("a parameter of kind %v cannot be read", field.Kind())
}

// enumNames returns the names of an enumeration's values but the first, as they
// are written: guarded for ROLLOUT_MODE_GUARDED.
func enumNames(d protoreflect.EnumDescriptor) []string {
	values := d.Values()
	prefix := strings.TrimSuffix(string(values.Get(0).Name()), "UNSPECIFIED")
	names := make([]string, 0, values.Len()-1)
	for i := 1; i < values.Len(); i++ {
		names = append(names, strings.ToLower(strings.TrimPrefix(string(values.Get(i).Name()), prefix)))
	}
	return names
}

// text reports what a text may not be: no store could keep it.
func text(given string) error {
	if !utf8.ValidString(given) {
		return errors.New("want UTF-8")
	}
	if strings.ContainsFunc(given, unicode.IsControl) {
		return errors.New("want no control characters")
	}
	return nil
}

// setText sets a field, or by "rule.id" one of a field's message.
func setText(m protoreflect.Message, path, value string) {
	outer, inner, nested := strings.Cut(path, ".")
	if nested {
		m = m.Mutable(m.Descriptor().Fields().ByName(protoreflect.Name(outer))).Message()
		outer = inner
	}
	m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(outer)), protoreflect.ValueOfString(value))
}

// writeOf returns how a request is written, nil for a request that writes
// nothing or has no choice.
func writeOf(q proto.Message) *rulesv1.Write {
	m := q.ProtoReflect()
	field := m.Descriptor().Fields().ByName("write")
	if field == nil {
		return nil
	}
	write, _ := m.Mutable(field).Message().Interface().(*rulesv1.Write)
	return write
}
