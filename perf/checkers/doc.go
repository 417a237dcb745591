// Package checkers drives real gateways whose counters are at real checkers, all in
// processes of their own, while the checkers die, hang, are slow, are short of time or
// are replaced, and while the Redis behind them does. It holds tests only.
//
// Nothing here is timed by a clock of the test's: what a decision waited is what the
// gateway's own histogram says, and counts of them are compared, so that a slow machine
// makes the tests see less, not fail.
package checkers
