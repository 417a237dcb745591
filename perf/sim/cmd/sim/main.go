// Command sim plays the simulator's scenarios and prints their table; it exits
// with 1 where one falls short.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/shiplane/limits/perf/sim"
)

func main() {
	run := flag.String("run", "", "only scenarios whose name contains this")
	seed := flag.Uint64("seed", 1, "of the run: the same seed makes the same run")
	flag.Parse()
	bad := 0
	fmt.Println(sim.Header)
	for _, s := range sim.Scenarios() {
		if !strings.Contains(s.Name, *run) {
			continue
		}
		row, err := s.Run(sim.Config{Seed: *seed})
		fmt.Println(row.String())
		if err != nil {
			fmt.Println("    DOES NOT HOLD:", err)
		}
		if err != nil || len(row.Faults) > 0 {
			bad++
		}
	}
	if bad > 0 {
		fmt.Println(bad, "scenarios fall short")
		os.Exit(1)
	}
}
