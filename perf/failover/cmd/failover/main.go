// Command failover lets a shard of the counter store fail under load and shows
// what callers see.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/failover"
)

func main() { os.Exit(failover.Main(os.Args[1:], os.Stdout, os.Stderr)) }
