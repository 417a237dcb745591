package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rule is one thing that must hold.
type Rule struct {
	Name string
	// violations says what of a plan is against the rule, each with its address.
	violations func(Plan) []string
}

// Violation is what is against a rule.
type Violation struct {
	Rule, What string
}

// Check returns all that is against any rule, in the rules' order.
func Check(plan Plan) []Violation {
	var found []Violation
	for _, rule := range Rules() {
		for _, what := range rule.violations(plan) {
			found = append(found, Violation{rule.Name, what})
		}
	}
	return found
}

// each makes a rule about every resource of a type; problem says what is wrong with
// one, "" for nothing.
func each(name, kind string, problem func(Resource) string) Rule {
	return Rule{name, func(p Plan) []string {
		var found []string
		for _, r := range p.of(kind) {
			if what := problem(r); what != "" {
				found = append(found, r.Address+": "+what)
			}
		}
		return found
	}}
}

// oneOf makes a rule that an attribute has one of some values.
func oneOf(kind, attribute string, values ...string) Rule {
	return each(kind+"."+attribute, kind, func(r Resource) string {
		if got := r.text(attribute); !slices.Contains(values, got) {
			return fmt.Sprintf("%s is %q, want %s", attribute, got, strings.Join(values, " or "))
		}
		return ""
	})
}

// members makes a rule that a list holds some values only, and one at least.
func members(kind, attribute string, values ...string) Rule {
	return each(kind+"."+attribute, kind, func(r Resource) string {
		for _, member := range r.list(attribute) {
			if !slices.Contains(values, text(member)) {
				return fmt.Sprintf("%s holds %q, want %s only", attribute, text(member), strings.Join(values, " and "))
			}
		}
		if len(r.list(attribute)) == 0 {
			return attribute + " is empty"
		}
		return ""
	})
}

// matches makes a rule that an attribute matches a pattern as a whole.
func matches(kind, attribute, pattern string) Rule {
	whole := regexp.MustCompile("^(?:" + pattern + ")$")
	return each(kind+"."+attribute, kind, func(r Resource) string {
		if got := r.text(attribute); !whole.MatchString(got) {
			return fmt.Sprintf("%s is %q, want %s", attribute, got, pattern)
		}
		return ""
	})
}

// given makes a rule that an attribute has a value, which may not be known yet.
func given(kind, attribute string) Rule {
	return each(kind+"."+attribute, kind, func(r Resource) string {
		if !r.set(attribute) {
			return attribute + " is not set"
		}
		return ""
	})
}

// without makes a rule that attributes are not set.
func without(kind string, attributes ...string) Rule {
	return each(kind+" without "+strings.Join(attributes, ", "), kind, func(r Resource) string {
		for _, attribute := range attributes {
			if r.Values[attribute] != nil && r.text(attribute) != "[]" {
				return attribute + " is set"
			}
		}
		return ""
	})
}

// exclusive makes a rule that at most one of some attributes is set in the
// configuration. What the provider decides does not count.
func exclusive(kind string, attributes ...string) Rule {
	return each(kind+" not both "+strings.Join(attributes, ", "), kind, func(r Resource) string {
		var set []string
		for _, attribute := range attributes {
			if r.Values[attribute] != nil && r.text(attribute) != "[]" {
				set = append(set, attribute)
			}
		}
		if len(set) > 1 {
			return strings.Join(set, " and ") + " exclude each other"
		}
		return ""
	})
}

// parameters makes a rule that a group of parameters has those of allowed that are
// required, none beside allowed, and for each a value that matches its pattern.
func parameters(kind string, allowed map[string]string, required ...string) Rule {
	return each(kind+".parameter", kind, func(r Resource) string {
		missing := slices.Clone(required)
		for _, block := range r.blocks("parameter") {
			name, value := text(block["name"]), text(block["value"])
			pattern, ok := allowed[name]
			if !ok {
				return fmt.Sprintf("parameter %q is none, or cannot be set", name)
			}
			if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(value) {
				return fmt.Sprintf("parameter %s is %q, want %s", name, value, pattern)
			}
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		}
		if len(missing) > 0 {
			return "lacks parameter " + strings.Join(missing, ", ")
		}
		return ""
	})
}

// count makes a rule that there are so many resources of a type.
func count(kind string, want int) Rule {
	return Rule{"one region's " + kind, func(p Plan) []string {
		if got := len(p.of(kind)); got != want {
			return []string{fmt.Sprintf("%s: %d, want %d", kind, got, want)}
		}
		return nil
	}}
}

// absent makes a rule that there is no resource of some types.
func absent(name string, kinds ...string) Rule {
	return Rule{name, func(p Plan) []string {
		var found []string
		for _, r := range p.Resources {
			if slices.Contains(kinds, r.Type) {
				found = append(found, r.Address)
			}
		}
		return found
	}}
}
