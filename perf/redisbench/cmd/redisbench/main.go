// Command redisbench prints what the counter store costs a real Redis.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/redisbench"
)

func main() { os.Exit(redisbench.Main(os.Args[1:], os.Stdout, os.Stderr)) }
