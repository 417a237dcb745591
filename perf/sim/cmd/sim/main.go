// Command sim plays the simulator's scenarios and prints their table; it exits
// with 1 where one falls short, with 2 where it could not be run.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/sim"
)

func main() { os.Exit(sim.Main(os.Args[1:], os.Stdout, os.Stderr)) }
