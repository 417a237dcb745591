// Command schemaprovider is a Terraform provider that has the true schema of a
// provider and no cloud behind it. It answers what Terraform and OpenTofu ask for
// validate, test, plan and apply: what a configuration leaves to the provider is
// unknown in a plan, and becomes a value made up from the resource on apply.
//
// The schema comes from the file that SCHEMAPROVIDER_SCHEMA names, in the form of
// "terraform providers schema -json". What the schema does not say (enumerations,
// attributes that exclude each other) the true provider checks and this one does
// not.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov5/tf5server"
)

func main() {
	if err := run(os.Getenv("SCHEMAPROVIDER_SCHEMA")); err != nil {
		fmt.Fprintln(os.Stderr, "schemaprovider:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	name, schemas, err := read(file)
	if err != nil {
		return err
	}
	return tf5server.Serve(name, func() tfprotov5.ProviderServer { return &server{schemas: schemas} })
}
