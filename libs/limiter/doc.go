// Package limiter is the data path: it decides requests whose rules are known,
// in the process where it can and by the store where it must.
//
// path.go reads top to bottom as a request is decided: ban and never, cap,
// knowledge, store, fail mode. Each stage is a pure function in a file of its
// own. core.go is the path without I/O: decide and apply take the time and the
// store's reply as arguments, start no goroutine and read no clock, so that a
// simulator can drive the same code in virtual time. limiter.go is the shell
// that reads the clock and calls the store.
//
// # Invariants
//
//   - A request is admitted only if every enforced rule that it meets granted
//     its charge, or its fail mode is open and nothing is known.
//   - A refused request charges nothing to a subject. Where a later subject
//     refuses, what earlier ones granted is handed back, asynchronously and at
//     best effort: what cannot be handed back is lost to the caller, never made.
//   - Every subject is looked at in the process before the first is charged.
//   - Nobody is refused in the process whom the store would have admitted: the
//     cap and the knowledge are upper bounds of what the store can hold.
//   - A shadow rule changes no verdict and makes no request wait.
//   - A charge whose fate is unknown is never repeated.
//
// # What is kept
//
// One record per subject holds the local state of its rules, in a table bounded
// by kind. It is disposable: an evicted record costs one call to the store.
package limiter
