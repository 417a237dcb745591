package ledger

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Bounds of an entry's texts, in bytes.
const (
	authorMax = 128
	whyMax    = 1024
)

// Resolution is how exactly times are kept.
const Resolution = time.Microsecond

// Prepare checks that an entry is one that can be kept, whatever the rules say,
// and cuts the times of its override to Resolution. Stores call it in Append. The
// error is ErrRefused and names the field.
func Prepare(e *Entry) error {
	if problem := cmp.Or(e.problem(), textProblem("author", e.Author, authorMax), textProblem("why", e.Why, whyMax),
		textProblem("action", e.Action, authorMax)); problem != "" {
		return fmt.Errorf("%w: %s", ErrRefused, problem)
	}
	cutTimes(e.Change.GetOverride())
	cutTimes(e.Before.GetOverride())
	return nil
}

// problem says what is wrong with an entry's item; "" if nothing is.
func (e *Entry) problem() string {
	if err := limit.ValidateDomain(e.Domain); err != nil {
		return err.Error()
	}
	item := ItemOf(e.Change)
	if item.Kind < rulesv1.Kind_KIND_PLAN || item.Kind > rulesv1.Kind_KIND_CANDIDATE {
		return "change: puts and deletes nothing"
	}
	if err := limit.ValidateName("id", item.ID); err != nil {
		return err.Error()
	}
	if problem := cmp.Or(unkeepable("change", e.Change.ProtoReflect()), unkeepable("before", e.Before.ProtoReflect())); problem != "" {
		return problem
	}
	if e.Before != nil && ItemOf(e.Before) != item {
		return fmt.Sprintf("before: is another item than %s %q", item.Kind, item.ID)
	}
	if c := e.Change.GetCandidate(); c != nil && c.GetStage() == rulesv1.Stage_STAGE_UNSPECIFIED {
		return "change.candidate.stage: is missing"
	}
	return e.versionProblem(item.Kind)
}

func (e *Entry) versionProblem(kind rulesv1.Kind) string {
	said, versioned := versionOf(e.Change)
	deletes := Deletes(e.Change)
	versionedKind := kind == rulesv1.Kind_KIND_RULE || kind == rulesv1.Kind_KIND_ROUTE
	switch {
	case versioned && said != e.Version:
		return fmt.Sprintf("version: the item says %d, the entry %d", said, e.Version)
	case (versioned || deletes && versionedKind) && e.Version < 1, e.Version < 0:
		return fmt.Sprintf("version: %d is none", e.Version)
	case !versioned && !versionedKind && kind != rulesv1.Kind_KIND_CANDIDATE && e.Version != 0:
		return fmt.Sprintf("version: a %s has none, the entry says %d", kind, e.Version)
	}
	return ""
}

// unkeepable names the first field of m that no store can keep: a text that is no
// UTF-8 or has a NUL, a number that is none, an unknown enumeration value, a time
// out of range. "" if there is none.
func unkeepable(path string, m protoreflect.Message) (problem string) {
	if !m.IsValid() {
		return ""
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		at := path + "." + string(field.Name())
		if !field.IsList() {
			problem = unkeepableValue(at, field, v)
			return problem == ""
		}
		for i := range v.List().Len() {
			if problem = unkeepableValue(fmt.Sprintf("%s[%d]", at, i), field, v.List().Get(i)); problem != "" {
				return false
			}
		}
		return true
	})
	return problem
}

func unkeepableValue(at string, field protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch field.Kind() {
	case protoreflect.StringKind:
		return textProblem(at, v.String(), math.MaxInt)
	case protoreflect.DoubleKind:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return at + ": is not a number"
		}
	case protoreflect.EnumKind:
		if field.Enum().Values().ByNumber(v.Enum()) == nil {
			return fmt.Sprintf("%s: %d is not known", at, v.Enum())
		}
	case protoreflect.MessageKind:
		switch of := v.Message().Interface().(type) {
		case *durationpb.Duration:
			if err := of.CheckValid(); err != nil {
				return at + ": " + err.Error()
			}
		case *timestamppb.Timestamp:
			if err := of.CheckValid(); err != nil {
				return at + ": " + err.Error()
			}
		default:
			return unkeepable(at, v.Message())
		}
	}
	return ""
}

// textProblem says why a text of at most longest bytes cannot be kept, beginning
// with the field's name; "" if it can.
func textProblem(field, text string, longest int) string {
	switch {
	case len(text) > longest:
		return fmt.Sprintf("%s: has %d bytes, at most %d are allowed", field, len(text), longest)
	case !utf8.ValidString(text):
		return field + ": is not UTF-8"
	case strings.ContainsRune(text, 0):
		return field + ": has a NUL character"
	}
	return ""
}

// cutTimes cuts the times of an override, which may be nil.
func cutTimes(o *rulesv1.Override) {
	for _, t := range []*timestamppb.Timestamp{o.GetStartsAt(), o.GetExpiresAt()} {
		if t != nil {
			t.Nanos -= t.GetNanos() % int32(Resolution)
		}
	}
}

// CheckReport returns ErrRefused and names the field if a report cannot be kept.
func CheckReport(r *Report) error {
	problem := cmp.Or(textProblem("domain", r.Domain, math.MaxInt), textProblem("incarnation", r.Incarnation, math.MaxInt),
		unkeepable("pod", r.Pod.ProtoReflect()))
	for i, fault := range r.Faults {
		problem = cmp.Or(problem, textProblem(fmt.Sprintf("faults[%d]", i), fault, math.MaxInt))
	}
	if r.Pod.GetId() == "" {
		problem = cmp.Or(problem, "pod.id: is missing")
	}
	if problem != "" {
		return fmt.Errorf("%w: report of pod %q: %s", ErrRefused, r.Pod.GetId(), problem)
	}
	return nil
}
