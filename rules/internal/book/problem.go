package book

import (
	"context"
	"errors"
	"fmt"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Codes of a Problem: words for programs.
const (
	CodeBadRequest           = "bad_request"           // cannot be read
	CodeInvalidRule          = "invalid_rule"          // can be read, and must not be in force
	CodeNotFound             = "not_found"             //
	CodePreconditionRequired = "precondition_required" // expected_version is missing
	CodeVersionConflict      = "version_conflict"      // expected_version is another than the item has
	CodeRolloutInProgress    = "rollout_in_progress"   // the rule has a rollout under way
	CodeUnavailable          = "unavailable"           // the database cannot be reached
)

// violationsMax bounds a Problem's Violations: an edit of a route class can break
// thousands of rules, and nobody reads them all.
const violationsMax = 100

// Problem is why something was not done, for the caller to see.
type Problem struct {
	Code       string
	Detail     string               // for people
	Violations []*rulesv1.Violation // everything that is wrong, at most violationsMax
	Current    int64                // with CodeVersionConflict: the version that the item has; 0 for none
	cause      error
}

// Error is the detail and the violations, one after another.
func (p *Problem) Error() string {
	text := p.Code + ": " + p.Detail
	for _, v := range p.Violations {
		text += "; " + v.GetField()
		if v.GetValue() != "" {
			text += " is " + v.GetValue()
		}
		text += ": " + v.GetProblem()
	}
	return text
}

func (p *Problem) Unwrap() error { return p.cause }

func problem(code, detail string, args ...any) *Problem {
	return &Problem{Code: code, Detail: fmt.Sprintf(detail, args...)}
}

// badField is a request of which one field cannot be taken. value is nil if
// nothing stands there.
func badField(field string, value any, want string, args ...any) *Problem {
	return &Problem{Code: CodeBadRequest, Detail: "the request cannot be taken", Violations: []*rulesv1.Violation{violation(field, value, want, args...)}}
}

// invalidField is a change of which one field must not be.
func invalidField(field string, value any, want string, args ...any) *Problem {
	return &Problem{Code: CodeInvalidRule, Detail: refused, Violations: []*rulesv1.Violation{violation(field, value, want, args...)}}
}

// refused is the Detail of a change with faults of its own.
const refused = "the change is refused, for it has faults"

func violation(field string, value any, want string, args ...any) *rulesv1.Violation {
	v := &rulesv1.Violation{Field: field, Problem: fmt.Sprintf(want, args...)}
	if value != nil {
		v.Value = show(value)
	}
	return v
}

// valueShown bounds how much of a value a violation repeats, in bytes.
const valueShown = 60

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

func notFound(what, id string) *Problem {
	return &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("there is no %s %s", what, show(id)), cause: ledger.ErrNotFound}
}

// invalid is a Problem of faults; where each is, where says.
func invalid(detail string, faults ruleset.Faults, where *fields) *Problem {
	p := problem(CodeInvalidRule, "%s", detail)
	for _, f := range faults[:min(len(faults), violationsMax)] {
		p.Violations = append(p.Violations, &rulesv1.Violation{Field: where.name(f.Path), Value: f.Value, Problem: f.Problem})
	}
	if len(faults) > violationsMax {
		p.Detail += fmt.Sprintf(" (%d faults, of which %d are shown)", len(faults), violationsMax)
	}
	return p
}

// away is the Detail of CodeUnavailable.
const away = "the database of the rules cannot be reached at the moment; pods go by the rules that they have"

// asProblem returns err as a caller is to see it: a *Problem, or an error of the
// context or of a bug as it is.
func asProblem(err error) error {
	var p *Problem
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrCompacted):
		return &Problem{Code: CodeUnavailable, Detail: away, cause: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, ledger.ErrRefused):
		return &Problem{Code: CodeInvalidRule, Detail: err.Error(), cause: err}
	case errors.Is(err, ledger.ErrNotFound):
		return &Problem{Code: CodeNotFound, Detail: err.Error(), cause: err}
	}
	return err
}
