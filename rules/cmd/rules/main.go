// Command rules is Shiplane's rules service.
package main

import (
	"os"

	"github.com/shiplane/limits/rules"
)

func main() {
	os.Exit(rules.Main(os.Args[1:], os.Stdout, os.Stderr))
}
