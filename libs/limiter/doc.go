// Package limiter is the data path: it decides requests whose rules are known,
// in the process where it can and by the store where it must.
//
// path.go shows the stages in their order: ban, cap, lease, knowledge, hold,
// then the store and the fail modes. Each stage is a file of its own. core.go
// is the path without I/O: Decide and Apply take the time and the store's reply
// as arguments and start no goroutine, so that a simulator drives the same code
// in virtual time. limiter.go is the shell that reads the clock, calls the
// store and lets requests wait; peek.go only looks.
//
// # Invariants
//
//   - A request is admitted only if every enforced rule that it meets has given
//     its charge, or its fail mode is open and nothing is known.
//   - A refused request charges nothing. Where a later subject refuses, what
//     earlier ones gave goes back: at once to the pod's lease, else to the
//     store, asynchronously; what cannot be handed back is lost, never made.
//   - Every subject is looked at in the process before the first is charged.
//   - Tokens on lease are paid for: whatever this pod admits from them, the
//     store has charged. What is not used goes back; a crash loses it.
//   - One ask in flight a subject: what arrives meanwhile waits in order, and
//     one reply settles all that it can. Logs are the exception: an attempt in
//     a log belongs to one request, which asks for itself.
//   - A shadow rule changes no verdict and makes no request wait.
//   - A charge whose fate is unknown is never repeated.
//   - A decision that has waited for its budget begins no further wait (budget.go).
//
// # What is kept
//
// One record per subject holds the local state of its rules, in a table bounded
// by kind. The lease of a record that is evicted goes back to the store.
package limiter
