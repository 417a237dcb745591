package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

// generate compiles o.files and writes what each plugin makes of them under
// o.out. An error of the compiler names file, line and column.
func generate(ctx context.Context, o options) error {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: o.imports}),
		SourceInfoMode: protocompile.SourceInfoStandard, // comments become doc comments
	}
	compiled, err := compiler.Compile(ctx, o.files...)
	if err != nil {
		return err
	}
	request := newRequest(o.files, compiled)
	for _, p := range o.plugins {
		request.Parameter = proto.String(p.parameter)
		response, err := p.run(ctx, request)
		if err != nil {
			return fmt.Errorf("plugin %s: %w", p.path, err)
		}
		if err := write(o.out, response); err != nil {
			return fmt.Errorf("plugin %s: %w", p.path, err)
		}
	}
	return nil
}

// newRequest lists the compiled files after everything that they import, as
// plugins expect.
func newRequest(files []string, compiled linker.Files) *pluginpb.CodeGeneratorRequest {
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files}
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range compiled {
		add(file)
	}
	return request
}

func (p plugin) run(ctx context.Context, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}

// write refuses a name that leaves root: a plugin is another's program.
func write(root string, response *pluginpb.CodeGeneratorResponse) error {
	for _, file := range response.GetFile() {
		name := filepath.FromSlash(file.GetName())
		if !filepath.IsLocal(name) {
			return fmt.Errorf("generated file %q is outside of the output root", name)
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
