// Package memory is the store in the process's own memory: the embedded default
// of the gateway, and the plain implementation that faster stores are compared
// with.
//
// It is the contract of libs/store and nothing else: no network, no failure, no
// waiting. Its memory is bounded by kind of subject (table.Bounds). A counter
// that is evicted is a full one when it comes back, so the bounds should exceed
// the subjects in use; whoever is in use is evicted last.
package memory
