// Package rules is the rules service: rules, route classes, plans and overrides in
// PostgreSQL, an administration by Connect, gRPC, gRPC-Web and REST, and a watch
// that brings each change to the pods within a second.
package rules
