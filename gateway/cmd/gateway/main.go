// Command gateway is Shiplane's API gateway: a reverse proxy that limits.
package main

import (
	"os"

	"github.com/shiplane/limits/gateway"
)

func main() {
	os.Exit(gateway.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
