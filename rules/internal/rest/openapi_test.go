package rest

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/protobuf/reflect/protoreflect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

var rewrite = flag.Bool("rewrite", false, "rewrite openapi.json")

// The document is what the table and the contract make, and valid OpenAPI.
func TestDocumentIsOfTheTable(t *testing.T) {
	want := newDescription(t).document()
	if *rewrite {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(document, want) {
		t.Errorf("openapi.json is not what the table makes: run go test ./rules/internal/rest -run %s -rewrite", t.Name())
	}
	load(t, want)
}

// load reads a document as a user of it would.
func load(t *testing.T, text []byte) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// object is a JSON object; its members are written in the order of their names.
type object map[string]any

// description makes the document: of each operation from the table, of all else
// from the contract, with its comments.
type description struct {
	comments func(protoreflect.Descriptor) string
	schemas  object
	names    *strings.Replacer // how this API writes what comments name
}

func newDescription(t *testing.T) *description {
	t.Helper()
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{"../../../proto"}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(t.Context(), "shiplane/rules/v1/rules.proto", "shiplane/rules/v1/service.proto")
	if err != nil {
		t.Fatal(err)
	}
	source := files.AsResolver()
	d := &description{schemas: object{}, names: spelling(files[0].Enums(), files[1].Enums())}
	d.comments = func(about protoreflect.Descriptor) string {
		found, err := source.FindDescriptorByName(about.FullName())
		if err != nil {
			t.Fatalf("%s: %v", about.FullName(), err)
		}
		comment := found.ParentFile().SourceLocations().ByDescriptor(found).LeadingComments
		if comment == "" {
			t.Fatalf("%s has no comment", about.FullName())
		}
		return d.names.Replace(strings.Join(strings.Fields(comment), " "))
	}
	return d
}

// spelling replaces names of the contract by those of this API.
func spelling(lists ...protoreflect.EnumDescriptors) *strings.Replacer {
	pairs := []string{"expected_version", "the version that If-Match names"}
	for _, enums := range lists {
		for i := range enums.Len() {
			for j, name := range enumNames(enums.Get(i)) {
				pairs = append(pairs, string(enums.Get(i).Values().Get(j+1).Name()), name)
			}
		}
	}
	return strings.NewReplacer(pairs...)
}

// document is the whole, indented.
func (d *description) document() []byte {
	paths := object{}
	for _, o := range operations(rulesv1.UnimplementedRulesServiceHandler{}) {
		item, ok := paths[o.path].(object)
		if !ok {
			item = object{}
			paths[o.path] = item
		}
		item[strings.ToLower(o.method)] = d.operation(&o)
	}
	d.schemas["Problem"] = problemSchema
	whole := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Shiplane Limits: rules", "version": "v1",
			"description": "Rules, route classes, plans and overrides, and how they reach the pods. Items are written as in a rule file. " +
				"Whole numbers of 64 bits are JSON numbers: all are below 2^53.",
			"license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{"token": []any{}}},
		"paths":    paths,
		"components": object{
			"schemas":         d.schemas,
			"responses":       responses(),
			"parameters":      conditionParameters,
			"headers":         headers,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "A token of POST /v1/tokens."}},
		},
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(whole); err != nil {
		return []byte(err.Error())
	}
	return text.Bytes()
}

var sentence = regexp.MustCompile(`^.*?\.( |$)`)

// operation describes one row of the table.
func (d *description) operation(o *operation) object {
	name := strings.TrimSuffix(string(o.request.Name()), "Request")
	method := rulesv1.File_shiplane_rules_v1_service_proto.Services().ByName("RulesService").Methods().ByName(protoreflect.Name(name))
	comment := strings.TrimPrefix(d.comments(method), name+" ")
	comment = strings.ToUpper(comment[:1]) + comment[1:]
	if o.shows != "" {
		comment += " The answer is the " + o.shows + " alone."
	}
	described := object{
		"operationId": strings.ToLower(name[:1]) + name[1:],
		"summary":     strings.TrimSpace(sentence.FindString(comment)),
		"description": comment,
		"tags":        []any{strings.SplitN(o.path, "/", 4)[2]},
		"responses":   d.answers(o),
	}
	if parameters := d.parameters(o); len(parameters) > 0 {
		described["parameters"] = parameters
	}
	if o.body != "" {
		body := o.request
		if o.body != "." {
			body = o.request.Fields().ByName(protoreflect.Name(o.body)).Message()
		}
		described["requestBody"] = object{"required": true, "content": content(d.message(body))}
	}
	return described
}

func (d *description) parameters(o *operation) (all []any) {
	if o.id != "" {
		field, item, nested := strings.Cut(o.id, ".")
		id := o.request.Fields().ByName(protoreflect.Name(field))
		if nested {
			id = id.Message().Fields().ByName(protoreflect.Name(item))
		}
		all = append(all, object{"name": "id", "in": "path", "required": true, "description": d.comments(id), "schema": object{"type": "string"}})
	}
	for _, p := range o.parameters {
		schema, _ := d.field(p.field).(object)
		delete(schema, "description")
		all = append(all, object{"name": p.name, "in": "query", "description": d.comments(p.field), "schema": schema})
	}
	switch {
	case o.current != nil:
		all = append(all, reference("parameters", "IfMatch"))
		if o.creates() {
			all = append(all, reference("parameters", "IfNoneMatch"))
		}
	case o.versioned():
		all = append(all, reference("parameters", "IfOther"))
	}
	return all
}

// creates reports whether an operation can write what does not exist.
func (o *operation) creates() bool {
	return o.method == http.MethodPut || strings.HasSuffix(o.path, ":rollback")
}

// versioned reports whether an answer shows one item that has versions.
func (o *operation) versioned() bool { return o.shows == "rule" || o.shows == "route" }

// answers describes every answer that an operation can give.
func (d *description) answers(o *operation) object {
	shown := o.answer
	if o.shows != "" {
		shown = o.answer.Fields().ByName(protoreflect.Name(o.shows)).Message()
	}
	success := object{"description": "As asked.", "content": content(d.message(shown))}
	headers := object{}
	if slices.ContainsFunc([]protoreflect.Name{"rule", "route", "rollout"}, func(name protoreflect.Name) bool { return o.answer.Fields().ByName(name) != nil }) {
		headers["ETag"] = reference("headers", "ETag")
	}
	if o.shows == "rule" {
		headers["Link"] = reference("headers", "Rollout")
	}
	if o.answer.Name() == "CreateOverrideResponse" {
		headers["Location"] = reference("headers", "Location")
	}
	if len(headers) > 0 {
		success["headers"] = headers
	}
	answers := object{strconv.Itoa(o.status): success, "default": reference("responses", "default")}
	add := func(statuses ...int) {
		for _, status := range statuses {
			answers[strconv.Itoa(status)] = reference("responses", http.StatusText(status))
		}
	}
	write := o.request.Fields().ByName("write") != nil
	if write && o.status == http.StatusCreated {
		answers["200"] = with(success, "Nothing was written: validate_only was true.")
	}
	if o.method == http.MethodPut {
		answers["201"] = with(success, "It did not exist before.")
	}
	if o.request.Fields().ByName("rollout") != nil {
		answers["202"] = with(success, "Its rollout has begun: it is not yet in force.")
	}
	if o.versioned() {
		answers["304"] = object{"description": "If-None-Match names the version that it has."}
	}
	add(http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	if o.id != "" {
		add(http.StatusNotFound)
	}
	if o.body != "" {
		add(http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	if write {
		add(http.StatusConflict, http.StatusUnprocessableEntity)
	}
	if o.current != nil {
		add(http.StatusPreconditionRequired)
	}
	return answers
}
