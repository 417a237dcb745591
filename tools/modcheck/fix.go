package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.starlark.net/syntax"
)

// writeUseRepo makes names the list of use_repo(go_deps, ...) in root's
// MODULE.bazel, and leaves the rest of the file as it is.
func writeUseRepo(root string, names []string) error {
	path := filepath.Join(root, "MODULE.bazel")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := (&syntax.FileOptions{}).Parse(path, text, 0)
	if err != nil {
		return err
	}
	for _, statement := range file.Stmts {
		call, ok := useRepoCall(statement)
		if !ok {
			continue
		}
		var list strings.Builder
		list.WriteString("\n    go_deps,\n")
		for _, name := range names {
			fmt.Fprintf(&list, "    %q,\n", name)
		}
		from, to := offset(text, call.Lparen)+1, offset(text, call.Rparen)
		fixed := string(text[:from]) + list.String() + string(text[to:])
		return os.WriteFile(path, []byte(fixed), 0o644)
	}
	return errors.New("MODULE.bazel has no use_repo(go_deps, ...) to fix")
}

func useRepoCall(statement syntax.Stmt) (*syntax.CallExpr, bool) {
	expression, ok := statement.(*syntax.ExprStmt)
	if !ok {
		return nil, false
	}
	call, ok := expression.X.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil, false
	}
	function, ok1 := call.Fn.(*syntax.Ident)
	first, ok2 := call.Args[0].(*syntax.Ident)
	return call, ok1 && ok2 && function.Name == "use_repo" && first.Name == "go_deps"
}

// offset is the byte that a position stands for, in a file of ASCII lines up to it.
func offset(text []byte, at syntax.Position) int {
	lines := strings.SplitAfter(string(text), "\n")
	return len(strings.Join(lines[:at.Line-1], "")) + int(at.Col) - 1
}
