// Command peers prints how the checker fares beside other rate limit services.
package main

import (
	"os"

	"github.com/shiplane/limits/perf/peers"
)

func main() { os.Exit(peers.Main(os.Args[1:], os.Stdout, os.Stderr)) }
