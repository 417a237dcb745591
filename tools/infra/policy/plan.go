package policy

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Plan is what a plan would leave behind.
type Plan struct {
	Resources []Resource
}

// Resource is a resource as it is planned to be.
type Resource struct {
	Address string
	Type    string
	Values  map[string]any // as encoding/json reads them; what is not known yet is missing
	unknown map[string]any // attributes that are known after the apply: true, or what of them is
}

// Parse reads what "terraform show -json" wrote.
func Parse(raw []byte) (Plan, error) {
	var shown struct {
		Changes []struct {
			Address string `json:"address"`
			Type    string `json:"type"`
			Change  struct {
				After   map[string]any `json:"after"`
				Unknown any            `json:"after_unknown"` // false for a resource that goes
			} `json:"change"`
		} `json:"resource_changes"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return Plan{}, fmt.Errorf("a plan in JSON: %w", err)
	}
	var plan Plan
	for _, c := range shown.Changes {
		if c.Change.After == nil {
			continue
		}
		unknown, _ := c.Change.Unknown.(map[string]any)
		plan.Resources = append(plan.Resources, Resource{c.Address, c.Type, c.Change.After, unknown})
	}
	return plan, nil
}

// of returns the resources of a type.
func (p Plan) of(kind string) []Resource {
	return slices.DeleteFunc(slices.Clone(p.Resources), func(r Resource) bool { return r.Type != kind })
}

// set reports whether an attribute has a value, or will have one.
func (r Resource) set(attribute string) bool {
	return r.Values[attribute] != nil || r.unknown[attribute] == true
}

// text returns an attribute as text: numbers and flags as JSON writes them; "" for
// none.
func (r Resource) text(attribute string) string {
	return text(r.Values[attribute])
}

func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}

// list returns the members of a list or set; none of what is no list.
func (r Resource) list(attribute string) []any {
	members, _ := r.Values[attribute].([]any)
	return members
}

// blocks returns the blocks of a name.
func (r Resource) blocks(name string) []map[string]any {
	var blocks []map[string]any
	for _, member := range r.list(name) {
		if block, ok := member.(map[string]any); ok {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
