// Command dev runs the whole system on one machine.
package main

import (
	"os"

	"github.com/shiplane/limits/dev"
)

func main() {
	os.Exit(dev.Main(os.Args[1:], os.Stdout, os.Stderr))
}
