// Command infra verifies infra/terraform without a cloud and without the true
// provider, against the provider's true schema:
//
//	infra -cli terraform -provider bin/schemaprovider -schema aws.json
//
// It copies the tree to -work and lets Terraform or OpenTofu format, validate, test,
// plan and apply each module and region there. A second plan must be empty, no
// secret may be in the state, and destroying a region must be refused. The plans
// are held to tools/infra/policy. Then it plants faults, one at a time, and shows
// by which step each is caught. It exits with 1 if anything fails, or if a fault is
// not caught.
//
// What it cannot show: that AWS accepts a value that is well-formed (a version that
// was withdrawn, a node type that a zone has not), and what the provider refuses by
// code and not by schema.
package main
