// Command checker is Shiplane's check as a service.
package main

import (
	"os"

	"github.com/shiplane/limits/checker"
)

func main() {
	os.Exit(checker.Main(os.Args[1:], os.Stdout, os.Stderr))
}
