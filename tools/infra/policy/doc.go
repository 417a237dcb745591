// Package policy says what must hold of a region's Terraform plan beyond what the
// provider's schema can say: enumerations, names of parameters and metrics, types
// of nodes, attributes that exclude each other, encryption, and that nothing is
// public. The true provider or AWS itself would refuse some of it, but late, in
// the middle of an apply; the rest nobody would.
//
// A plan is what "terraform show -json" writes of it. Values that are not known
// before the apply (a key's ARN) count as set. Rules are kept as a list, each with
// a name; the tests plant a violation of every one.
package policy
