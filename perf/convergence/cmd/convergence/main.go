// Command convergence measures how changes of the rules reach a fleet of pods.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/convergence"
)

func main() {
	if convergence.IsInstance() {
		os.Exit(convergence.RunInstance())
	}
	os.Exit(convergence.Main(os.Args[1:], os.Stdout, os.Stderr))
}
