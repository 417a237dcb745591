package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	fix := flag.Bool("fix", false, "write the list of use_repo(go_deps, ...) from go.mod")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	faults, err := run(root, *fix)
	if err != nil {
		fmt.Fprintln(os.Stderr, "modcheck:", err)
		os.Exit(1)
	}
	for _, fault := range faults {
		fmt.Println(fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// run returns the faults of the repository at root; the error is one that hides
// further faults.
func run(root string, fix bool) ([]string, error) {
	goMod, err := readGoMod(root)
	if err != nil {
		return nil, err
	}
	if fix {
		if err := writeUseRepo(root, goMod.direct); err != nil {
			return nil, err
		}
	}
	module, err := readModule(root)
	if err != nil {
		return nil, err
	}
	unknown, err := unknownRepositories(root, module.repositories)
	if err != nil {
		return nil, err
	}
	return append(compare(module, goMod), unknown...), nil
}
