package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// asPlugin, in the environment, makes this test a protoc plugin that writes one
// file, named by the plugin's parameter.
const asPlugin = "PROTOGEN_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) == "" {
		os.Exit(m.Run())
	}
	if err := servePlugin(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// servePlugin answers with the files that it was given, in their order, and
// what it was asked to generate.
func servePlugin() error {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{}
	if err := proto.Unmarshal(in, request); err != nil {
		return err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if request.GetParameter() == "refuse" {
		response.Error = proto.String("no such option")
	}
	var text strings.Builder
	for _, file := range request.GetProtoFile() {
		fmt.Fprintln(&text, file.GetName())
	}
	fmt.Fprintln(&text, "generate", request.GetFileToGenerate())
	response.File = []*pluginpb.CodeGeneratorResponse_File{{
		Name:    proto.String(request.GetParameter()),
		Content: proto.String(text.String()),
	}}
	out, err := proto.Marshal(response)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(out)
	return err
}

// setUp returns options for a root with these .proto files, and the folder that
// is written to; the plugin is this test.
func setUp(t *testing.T, parameter string, files map[string]string) (o options, out string) {
	t.Helper()
	t.Setenv(asPlugin, "1")
	root := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out = filepath.Join(t.TempDir(), "below")
	return options{imports: []string{root}, plugins: []plugin{{path: self, parameter: parameter}}, out: out, files: []string{"a.proto"}}, out
}

var sound = map[string]string{
	"a.proto": "syntax = \"proto3\";\nimport \"b.proto\";\nimport \"google/protobuf/duration.proto\";\nmessage A { B b = 1; google.protobuf.Duration d = 2; }\n",
	"b.proto": "syntax = \"proto3\";\nmessage B {}\n",
}

// A plugin is handed each file after what it imports, and asked to generate
// only the files of the command line.
func TestPluginSeesImportsBeforeTheirImporters(t *testing.T) {
	o, out := setUp(t, "deep/list.txt", sound)
	if err := generate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(out, "deep", "list.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := "b.proto\ngoogle/protobuf/duration.proto\na.proto\ngenerate [a.proto]\n"
	if string(got) != want {
		t.Errorf("the plugin saw\n%swant\n%s", got, want)
	}
}

// What goes wrong is said with its place, and nothing is written outside of the
// output root.
func TestFaultsAreNamed(t *testing.T) {
	for _, test := range []struct {
		name, parameter, want string
		files                 map[string]string
	}{
		{name: "syntax", parameter: "x.txt", want: "a.proto:2:", files: map[string]string{"a.proto": "syntax = \"proto3\";\nmessage {}\n"}},
		{name: "missing import", parameter: "x.txt", want: "b.proto", files: map[string]string{"a.proto": sound["a.proto"]}},
		{name: "plugin's error", parameter: "refuse", want: "no such option", files: sound},
		{name: "file above the root", parameter: "../above.txt", want: `"../above.txt" is outside`, files: sound},
		{name: "absolute file", parameter: "/above.txt", want: `"/above.txt" is outside`, files: sound},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, out := setUp(t, test.parameter, test.files)
			err := generate(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want it to contain %q", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(out), "above.txt")); err == nil {
				t.Error("a file was written above the output root")
			}
		})
	}
}
