// Package acceptance drives the real gateway over HTTP and checks what a caller
// can see of it: what is admitted under overload, that nobody under the limit is
// refused, and that a refusal costs nothing. It holds tests only.
//
// The bounds are exact, for they are computed from the times at which requests
// were sent and answered, not from the rates that were asked for: a slow machine
// makes the tests see less, not fail.
package acceptance
