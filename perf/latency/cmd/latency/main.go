// Command latency measures what the limiter adds to a request.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/latency"
)

func main() { os.Exit(latency.Main(os.Args[1:], os.Stdout, os.Stderr)) }
