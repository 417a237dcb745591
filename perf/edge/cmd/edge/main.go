// Command edge runs a gateway through what the internet does to it.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/edge"
)

func main() { os.Exit(edge.Main(os.Args[1:], os.Stdout, os.Stderr)) }
