package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// The file, as "terraform providers schema -json" writes it.
type (
	fileJSON struct {
		Schemas map[string]providerJSON `json:"provider_schemas"`
	}
	providerJSON struct {
		Provider  schemaJSON            `json:"provider"`
		Resources map[string]schemaJSON `json:"resource_schemas"`
		Ephemeral map[string]schemaJSON `json:"ephemeral_resource_schemas"`
	}
	schemaJSON struct {
		Version int64     `json:"version"`
		Block   blockJSON `json:"block"`
	}
	blockJSON struct {
		Attributes map[string]attributeJSON `json:"attributes"`
		Blocks     map[string]nestedJSON    `json:"block_types"`
	}
	attributeJSON struct {
		Type      json.RawMessage `json:"type"`
		Required  bool            `json:"required"`
		Optional  bool            `json:"optional"`
		Computed  bool            `json:"computed"`
		WriteOnly bool            `json:"write_only"`
	}
	nestedJSON struct {
		Nesting  string    `json:"nesting_mode"`
		Block    blockJSON `json:"block"`
		MinItems int64     `json:"min_items"`
		MaxItems int64     `json:"max_items"`
	}
)

// schemas are those of one provider.
type schemas struct {
	provider             *tfprotov5.Schema
	resources, ephemeral map[string]*tfprotov5.Schema
}

// read reads the first provider of a file, and its name.
func read(file string) (string, *schemas, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", nil, err
	}
	var f fileJSON
	if err := json.Unmarshal(raw, &f); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	for name, p := range f.Schemas {
		s := &schemas{resources: map[string]*tfprotov5.Schema{}, ephemeral: map[string]*tfprotov5.Schema{}}
		s.provider, err = p.Provider.schema()
		err = errors.Join(err, fill(s.resources, p.Resources), fill(s.ephemeral, p.Ephemeral))
		return name, s, err
	}
	return "", nil, fmt.Errorf("%s: no provider", file)
}

func fill(to map[string]*tfprotov5.Schema, from map[string]schemaJSON) error {
	for name, s := range from {
		converted, err := s.schema()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		to[name] = converted
	}
	return nil
}

func (s schemaJSON) schema() (*tfprotov5.Schema, error) {
	block, err := s.Block.schema()
	return &tfprotov5.Schema{Version: s.Version, Block: block}, err
}

func (b blockJSON) schema() (*tfprotov5.SchemaBlock, error) {
	out := &tfprotov5.SchemaBlock{}
	for name, a := range b.Attributes {
		t, err := tftypes.ParseJSONType(a.Type) //nolint:staticcheck // the one reader of the JSON form of types
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Attributes = append(out.Attributes, &tfprotov5.SchemaAttribute{
			Name: name, Type: t, Required: a.Required, Optional: a.Optional, Computed: a.Computed, WriteOnly: a.WriteOnly,
		})
	}
	for name, n := range b.Blocks {
		nested, err := n.schema(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.BlockTypes = append(out.BlockTypes, nested)
	}
	return out, nil
}

func (n nestedJSON) schema(name string) (*tfprotov5.SchemaNestedBlock, error) {
	modes := map[string]tfprotov5.SchemaNestedBlockNestingMode{
		"single": tfprotov5.SchemaNestedBlockNestingModeSingle,
		"list":   tfprotov5.SchemaNestedBlockNestingModeList,
		"set":    tfprotov5.SchemaNestedBlockNestingModeSet,
	}
	mode, ok := modes[n.Nesting]
	if !ok {
		return nil, fmt.Errorf("nesting mode %q", n.Nesting)
	}
	block, err := n.Block.schema()
	return &tfprotov5.SchemaNestedBlock{TypeName: name, Block: block, Nesting: mode, MinItems: n.MinItems, MaxItems: n.MaxItems}, err
}

// attributeAt finds the attribute at a path below a block; nil for a block, or for
// what is inside an attribute.
func attributeAt(b *tfprotov5.SchemaBlock, steps []tftypes.AttributePathStep) *tfprotov5.SchemaAttribute {
	if len(steps) == 0 {
		return nil
	}
	name, ok := steps[0].(tftypes.AttributeName)
	if !ok {
		return nil
	}
	if len(steps) == 1 {
		for _, a := range b.Attributes {
			if a.Name == string(name) {
				return a
			}
		}
		return nil
	}
	for _, n := range b.BlockTypes {
		if n.TypeName != string(name) {
			continue
		}
		rest := steps[1:]
		if _, ok := rest[0].(tftypes.AttributeName); !ok {
			rest = rest[1:] // which of the blocks
		}
		return attributeAt(n.Block, rest)
	}
	return nil
}
