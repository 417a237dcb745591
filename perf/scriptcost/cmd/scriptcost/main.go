// Command scriptcost prints what a check costs the Redis server, a line a
// shape, and exits with 1 if one is above its budget.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/shiplane/limits/perf/scriptcost"
)

func main() {
	dir, err := os.MkdirTemp("", "scriptcost")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer os.RemoveAll(dir)
	lines, err := scriptcost.Measure(context.Background(), dir)
	above := false
	for _, line := range lines {
		fmt.Println(line)
		above = above || line.Budget > 0 && line.Instructions > line.Budget
	}
	if err != nil || above {
		fmt.Fprintln(os.Stderr, "above the budget or not measured:", err)
		os.Exit(1)
	}
}
