// Command loadgen drives an HTTP API at a fixed rate and compares what was
// admitted with what the limits allow.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/shiplane/limits/perf/loadgen"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(loadgen.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
