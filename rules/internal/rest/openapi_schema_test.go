package rest

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// required are the members that a body cannot do without, whatever else it says.
var required = map[protoreflect.Name][]any{
	"Rule":               {"identity", "algorithm"}, // the id is in the path
	"Route":              {"match"},
	"Plan":               {"id"},
	"Override":           {"rule", "key"},
	"CreateTokenRequest": {"name", "role"},
}

// readOnly are the members that the server sets.
var readOnly = map[protoreflect.FullName]bool{
	"shiplane.rules.v1.Rule.version":    true,
	"shiplane.rules.v1.Route.version":   true,
	"shiplane.rules.v1.Override.id":     true,
	"shiplane.rules.v1.Override.author": true,
}

// message describes a message as a schema of its own, and refers to it.
func (d *description) message(m protoreflect.MessageDescriptor) object {
	name := string(m.Name())
	if _, known := d.schemas[name]; !known {
		schema := object{"type": "object", "description": d.comments(m), "additionalProperties": false}
		d.schemas[name] = schema // before its fields: a message may hold its like
		properties := object{}
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			properties[string(f.Name())] = d.field(f)
		}
		schema["properties"] = properties
		if must := required[m.Name()]; must != nil {
			schema["required"] = must
		}
	}
	return reference("schemas", name)
}

// field describes a field.
func (d *description) field(f protoreflect.FieldDescriptor) any {
	schema := d.value(f)
	if f.IsList() {
		list := object{"type": "array", "items": schema}
		if f.Message() == nil { // a text may stand for a list of it
			list = object{"anyOf": []any{list, schema}}
		}
		schema = list
	}
	schema["description"] = d.comments(f)
	if readOnly[f.FullName()] {
		schema["readOnly"] = true
	}
	return schema
}

// value describes one value of a field.
func (d *description) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return object{"type": "integer", "format": f.Kind().String()}
	case protoreflect.DoubleKind:
		return object{"type": "string", "examples": []any{"10/s", "5/m", "100/h", "1/d"}}
	case protoreflect.EnumKind:
		return object{"type": "string", "enum": enumNames(f.Enum())}
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.Duration":
			return object{"type": "string", "examples": []any{"90s", "24h", "7d"}}
		case "google.protobuf.Timestamp":
			return object{"type": "string", "format": "date-time"}
		}
		return d.message(f.Message())
	}
	return object{"type": "string"}
}

func reference(kind, name string) object {
	return object{"$ref": "#/components/" + kind + "/" + strings.ReplaceAll(name, " ", "")}
}

func content(schema object) object {
	return object{"application/json": object{"schema": schema}}
}

// with is an answer with another description.
func with(answer object, text string) object {
	other := maps.Clone(answer)
	other["description"] = text
	return other
}

var conditionParameters = object{
	"IfMatch": object{
		"name": "If-Match", "in": "header", "schema": object{"type": "string", "examples": []any{`"7"`}},
		"description": "The version that is to be replaced, in quotes as ETag says it; several with commas, of which one must be the current one; or * for any.",
	},
	"IfNoneMatch": object{
		"name": "If-None-Match", "in": "header", "schema": object{"type": "string", "enum": []any{"*"}},
		"description": "* for an item that must not exist yet, in the place of If-Match.",
	},
	"IfOther": object{
		"name": "If-None-Match", "in": "header", "schema": object{"type": "string", "examples": []any{`"7"`}},
		"description": "The version that the reader has: 304 if there is no other.",
	},
}

var headers = object{
	"ETag":     object{"description": "The item's version, in quotes.", "schema": object{"type": "string", "examples": []any{`"7"`}}},
	"Rollout":  object{"description": "The rollout of an edit of the rule, if one is under way.", "schema": object{"type": "string", "examples": []any{`</v1/rollouts?active=true&rule=growth-global>; rel="related"`}}},
	"Location": object{"description": "Where what was made is read and ended.", "schema": object{"type": "string", "format": "uri-reference"}},
}

// responses describes the problems by their status.
func responses() object {
	texts := map[int]string{
		http.StatusBadRequest:            "bad_request: it cannot be read; violations name each parameter or member that is wrong.",
		http.StatusUnauthorized:          "unauthenticated: there is no token, or it is void.",
		http.StatusForbidden:             "permission_denied: the role of the token may not do this.",
		http.StatusNotFound:              "not_found.",
		http.StatusConflict:              "version_conflict: it has another version than If-Match names, which current_version and ETag tell; or rollout_in_progress.",
		http.StatusRequestEntityTooLarge: "body_too_large.",
		http.StatusUnsupportedMediaType:  "unsupported_media_type: want application/json.",
		http.StatusUnprocessableEntity:   "invalid_rule: it must not be in force; violations names everything that is wrong.",
		http.StatusPreconditionRequired:  "precondition_required: If-Match is missing.",
		http.StatusServiceUnavailable:    "unavailable: the database cannot be reached. A write may have been made all the same: read before it is repeated.",
	}
	all := object{"default": problemResponse("Any other problem.")}
	for status, text := range texts {
		name := strings.ReplaceAll(http.StatusText(status), " ", "")
		answer := problemResponse(text)
		switch status {
		case http.StatusConflict:
			answer["headers"] = object{"ETag": reference("headers", "ETag")}
		case http.StatusServiceUnavailable:
			answer["headers"] = object{"Retry-After": object{"description": "Seconds.", "schema": object{"type": "integer"}}}
		}
		all[name] = answer
	}
	return all
}

func problemResponse(text string) object {
	return object{
		"description": text,
		"content":     object{"application/problem+json": object{"schema": reference("schemas", "Problem")}},
	}
}

// problemSchema is the one schema that is not of the contract.
var problemSchema = object{
	"type": "object", "description": "What went wrong (RFC 9457).", "additionalProperties": false,
	"required": []any{"type", "title", "status", "code"},
	"properties": object{
		"type":            object{"type": "string", "format": "uri-reference"},
		"title":           object{"type": "string", "description": "The status in words."},
		"status":          object{"type": "integer"},
		"code":            object{"type": "string", "description": "A word to switch on.", "enum": allCodes()},
		"detail":          object{"type": "string", "description": "For people; may change."},
		"instance":        object{"type": "string", "description": "Which request it was about."},
		"current_version": object{"type": "integer", "format": "int64", "description": "With version_conflict: the version that the item has; 0 if there is none."},
		"violations": object{
			"type": "array", "description": "Everything that is wrong with what was sent; at most 100.",
			"items": object{
				"type": "object", "additionalProperties": false, "required": []any{"field", "problem"},
				"properties": object{
					"field":   object{"type": "string", "description": "Where, as in rule.burst; a parameter by its name."},
					"value":   object{"type": "string", "description": "What stands there, shortened."},
					"problem": object{"type": "string", "description": "What is wrong with it, and what is allowed."},
				},
			},
		},
	},
}

func allCodes() []string {
	codes := []string{codeMethodNotAllowed, codeBodyTooLarge, codeMediaType, codeInternal}
	for code := range statuses {
		codes = append(codes, code)
	}
	for _, b := range bare {
		codes = append(codes, b.code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}
