// Command protogen compiles this repository's .proto files in pure Go and runs
// protoc plugins on them, so that neither `make generate` nor Bazel needs
// protoc.
//
//	protogen -I proto -o proto -plugin bin/protoc-gen-go=paths=source_relative shiplane/check/v1/check.proto
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// A plugin is a protoc plugin and the parameter that it is given.
type plugin struct {
	path      string
	parameter string
}

type options struct {
	imports []string // roots that .proto files and their imports are looked up in
	plugins []plugin
	out     string   // root that generated files are written under
	files   []string // .proto files, relative to a root
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(2)
	}
	if err := generate(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("protogen", flag.ContinueOnError)
	flags.Func("I", "`root` that .proto files are looked up in; repeatable", func(root string) error {
		o.imports = append(o.imports, root)
		return nil
	})
	flags.Func("plugin", "`path` of a protoc plugin, then = and its parameter; repeatable", func(text string) error {
		path, parameter, _ := strings.Cut(text, "=")
		o.plugins = append(o.plugins, plugin{path: path, parameter: parameter})
		return nil
	})
	flags.StringVar(&o.out, "o", ".", "`root` that generated files are written under")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o.files = flags.Args()
	if len(o.files) == 0 || len(o.imports) == 0 || len(o.plugins) == 0 {
		return options{}, errors.New("want at least one .proto file, one -I and one -plugin")
	}
	return o, nil
}
