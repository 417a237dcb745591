package ruleset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/limit"
)

// Bounds of the JSON of one item.
const (
	itemMax      = 1 << 20 // bytes
	itemDepthMax = 16      // of nested objects and lists: a rule needs 3
)

// ReadItem fills m from JSON in the shape of the rule file: the fields of m's
// contract by their names, enumerations in lower case without their prefix, a rate
// as "10/s", a duration as "24h", a time in RFC 3339, whole numbers as numbers, and
// a list of one text as the text. Messages within m likewise. Fields that a server
// sets may stand there, so that what was read from it can be sent back.
//
// Every fault of form is found: what is unknown, stands twice, or is of another
// type. Fields that have none are set. Bounds and names are Apply's to check.
func ReadItem(text []byte, m proto.Message) Faults {
	if len(text) > itemMax {
		return Faults{{Problem: fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), itemMax)}}
	}
	if !utf8.Valid(text) {
		return Faults{{Problem: "is not UTF-8"}}
	}
	var whole json.RawMessage // a Decoder of tokens takes more than JSON
	err := json.Unmarshal(text, &whole)
	if err == nil && loneSurrogate(text) {
		err = errors.New("half of a surrogate pair is no character")
	}
	r := itemReader{tokens: json.NewDecoder(bytes.NewReader(text))}
	r.tokens.UseNumber()
	var root any
	if err == nil {
		root, err = r.value(0)
	}
	if err != nil {
		return Faults{{Problem: "is no JSON: " + err.Error()}}
	}
	r.message("", root, m.ProtoReflect())
	return r.faults
}

// itemReader reads one item. Values are string, json.Number, bool, nil, []any and
// *object.
type itemReader struct {
	tokens *json.Decoder
	faults Faults
}

// object is a JSON object with its members in order, each as often as it stands
// there: encoding/json keeps the last of two.
type object struct {
	names  []string
	values []any
}

// value reads the next value of a text that is JSON.
func (r *itemReader) value(depth int) (any, error) {
	if depth > itemDepthMax {
		return nil, fmt.Errorf("is nested deeper than %d levels", itemDepthMax)
	}
	token, err := r.tokens.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return r.object(depth)
	case json.Delim('['):
		return r.list(depth)
	}
	return token, nil
}

func (r *itemReader) object(depth int) (any, error) {
	o := &object{}
	for r.tokens.More() {
		name, err := r.tokens.Token()
		if err != nil {
			return nil, err
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		o.names, o.values = append(o.names, fmt.Sprint(name)), append(o.values, value)
	}
	_, err := r.tokens.Token()
	return o, err
}

func (r *itemReader) list(depth int) (any, error) {
	list := []any{}
	for r.tokens.More() {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := r.tokens.Token()
	return list, err
}

// fault notes what is wrong, as often as anybody reads it.
func (r *itemReader) fault(path string, value any, problem string, args ...any) {
	if len(r.faults) == faultsShown {
		return
	}
	f := Fault{Path: path, Problem: fmt.Sprintf(problem, args...)}
	switch v := value.(type) {
	case string:
		f.Value = show(v)
	case json.Number, bool:
		f.Value = fmt.Sprint(v)
	}
	r.faults = append(r.faults, f)
}

func (r *itemReader) message(path string, value any, m protoreflect.Message) {
	o, ok := value.(*object)
	if !ok {
		r.fault(path, value, "want an object with %s", allFields(m.Descriptor()))
		return
	}
	seen := map[string]bool{}
	for i, name := range o.names {
		field := m.Descriptor().Fields().ByName(protoreflect.Name(name))
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case field == nil:
			r.fault(path, nil, "has an unknown field, %s: want one of %s", show(name), allFields(m.Descriptor()))
		case seen[name]:
			r.fault(at, nil, "stands twice")
		default:
			r.field(at, o.values[i], m, field)
		}
		seen[name] = true
	}
}

func allFields(d protoreflect.MessageDescriptor) string {
	var names []string
	for i := range d.Fields().Len() {
		names = append(names, string(d.Fields().Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

func (r *itemReader) field(path string, value any, m protoreflect.Message, field protoreflect.FieldDescriptor) {
	switch {
	case value == nil:
		r.fault(path, nil, "has no value: leave it out")
	case field.IsList():
		entries, ok := value.([]any)
		if !ok && field.Message() == nil {
			entries, ok = []any{value}, true // a text may stand for a list of it
		}
		if !ok {
			r.fault(path, value, "want a list")
			return
		}
		list := m.NewField(field)
		for i, entry := range entries {
			list.List().Append(r.single(fmt.Sprintf("%s[%d]", path, i), entry, field, list.List().NewElement()))
		}
		m.Set(field, list)
	default:
		before := len(r.faults)
		if v := r.single(path, value, field, m.NewField(field)); len(r.faults) == before {
			m.Set(field, v)
		}
	}
}

// single reads a value into what may be there already; with a fault it returns
// that as it is.
func (r *itemReader) single(path string, value any, field protoreflect.FieldDescriptor, into protoreflect.Value) protoreflect.Value {
	if field.Message() != nil && !asText(field.Message()) {
		r.message(path, value, into.Message())
		return into
	}
	v, err := jsonScalar(value, field)
	if err != nil {
		r.fault(path, value, "%v", err)
		return into
	}
	return v
}

// asText reports whether a message is written as one text.
func asText(d protoreflect.MessageDescriptor) bool {
	return d.FullName() == "google.protobuf.Duration" || d.FullName() == "google.protobuf.Timestamp"
}

// jsonScalar returns a value for a field; the error says what is wanted.
func jsonScalar(value any, field protoreflect.FieldDescriptor) (v protoreflect.Value, err error) {
	switch field.Kind() {
	case protoreflect.BoolKind:
		b, ok := value.(bool)
		if !ok {
			return v, errors.New("want true or false")
		}
		return protoreflect.ValueOfBool(b), nil
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		number, ok := value.(json.Number)
		n, err := strconv.ParseInt(number.String(), 10, map[bool]int{true: 32, false: 64}[field.Kind() == protoreflect.Int32Kind])
		if !ok || err != nil {
			return v, errors.New("want a whole number")
		}
		if field.Kind() == protoreflect.Int32Kind {
			return protoreflect.ValueOfInt32(int32(n)), nil //nolint:gosec // parsed as 32 bits
		}
		return protoreflect.ValueOfInt64(n), nil
	}
	text, ok := value.(string)
	if !ok {
		return v, errors.New("want a text, " + formOf(field))
	}
	if odd := notText([]byte(text)); odd != nil {
		return v, fmt.Errorf("has a %s: want text", odd.Value)
	}
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.EnumKind:
		return enumValue(text, field.Enum())
	case protoreflect.DoubleKind: // every number that is not whole is a rate
		rate, err := parseRate(text)
		return protoreflect.ValueOfFloat64(rate), err
	case protoreflect.MessageKind:
		return messageValue(text, field.Message())
	}
	return v, fmt.Errorf("no %v can be written here", field.Kind())
}

// loneSurrogate reports an escape in JSON that stands for half a character: it would
// be read as U+FFFD, like any other half.
func loneSurrogate(text []byte) bool {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		if first := escaped(text[i:]); !utf16.IsSurrogate(first) {
			i++ // what is escaped
		} else if second := escaped(text[i+len(`\ud800`):]); utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		} else {
			i += len(`\ud800\udc00`) - 1
		}
	}
	return false
}

// escaped returns what a text that begins with \u and four digits stands for, and 0
// for another one.
func escaped(text []byte) rune {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// formOf shows how a field's text looks.
func formOf(field protoreflect.FieldDescriptor) string {
	switch {
	case field.Kind() == protoreflect.DoubleKind:
		return `as "10/s"`
	case field.Message() != nil && field.Message().Name() == "Duration":
		return `as "24h"`
	case field.Message() != nil:
		return `as "2026-11-27T00:00:00Z"`
	case field.Enum() != nil:
		return "a name"
	}
	return `in quotes`
}

// WriteItem returns m as JSON that ReadItem reads back: the fields that are set, in
// the order of the contract, in one line with a line break at its end. Lists and
// false are written where they are set only.
func WriteItem(m proto.Message) []byte {
	var b bytes.Buffer
	writeMessage(&b, m.ProtoReflect())
	b.WriteByte('\n')
	return b.Bytes()
}

func writeMessage(b *bytes.Buffer, m protoreflect.Message) {
	b.WriteByte('{')
	comma := ""
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		if !m.Has(field) {
			continue
		}
		fmt.Fprintf(b, "%s%q:", comma, field.Name())
		comma = ","
		if !field.IsList() {
			writeValue(b, field, m.Get(field))
			continue
		}
		b.WriteByte('[')
		list := m.Get(field).List()
		for i := range list.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(b, field, list.Get(i))
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
}

func writeValue(b *bytes.Buffer, field protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch field.Kind() {
	case protoreflect.BoolKind:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	case protoreflect.EnumKind:
		writeText(b, enumName(field.Enum(), v.Enum()))
	case protoreflect.DoubleKind:
		writeText(b, limit.Rate(v.Float()).Exact())
	case protoreflect.MessageKind:
		switch one := v.Message().Interface().(type) {
		case *durationpb.Duration:
			writeText(b, shortest(one.AsDuration()))
		case *timestamppb.Timestamp:
			writeText(b, one.AsTime().Format(time.RFC3339Nano))
		default:
			writeMessage(b, v.Message())
		}
	default:
		writeText(b, v.String())
	}
}

// shortest writes a duration as "24h", where Go has "24h0m0s".
func shortest(length time.Duration) string {
	text := length.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len("0s")]
		}
	}
	return text
}

// writeText writes a text, with < and > as they are.
func writeText(b *bytes.Buffer, text string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text)      // a text always encodes
	b.Truncate(b.Len() - 1) // the line break
}

// enumName is how an enumeration's value is written: without its prefix.
func enumName(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	prefix := strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
	value := d.Values().ByNumber(n)
	if value == nil {
		return strconv.Itoa(int(n))
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix))
}
