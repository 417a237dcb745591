// Command real plays key scenarios for real and compares them with the simulator.
package main

import (
	"fmt"
	"os"

	"github.com/shiplane/limits/perf/real"
)

func main() {
	if real.IsPod() {
		if err := real.RunPod(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "pod:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(real.Main(os.Args[1:], os.Stdout, os.Stderr))
}
