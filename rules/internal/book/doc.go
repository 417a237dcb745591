// Package book is the rules service without its network: it follows the store of
// the rules, and makes every change to them.
//
// # Following
//
// A Book holds each domain compiled, as pods do. Hints of the store make it quick,
// polling makes it right; a log that no longer reaches back to what the book has is
// answered by a snapshot. One goroutine follows and tells the Listener, in order. A
// store that is away leaves everything as it was: the book serves what it has, reads
// and writes of the administration fail with CodeUnavailable, and pods notice nothing.
//
// # Writing
//
// A write happens under the store's lock. It begins with what is committed, not with
// what this instance has seen, puts the change to that as a pod will, and is refused
// with every fault at once. So what is in the store was valid as a whole at every
// revision, whoever wrote it and through however many instances. Whoever writes a
// rule or a route class says which version was read; of two who read the same, one
// is told of the other.
//
// # What is guarded
//
// Decided on 2026-12-02. A rollout guards an edit that may refuse what was not
// refused before: a rule in enforce mode, put or set so by EnforceRule, that is new or
// differs in anything from the one in force. At once, everywhere, go:
//
//   - a rule in shadow mode, whatever it was: it refuses nothing;
//   - ShadowRule, DeleteRule and RollbackRule, which are for emergencies;
//   - an edit that changes nothing;
//   - overrides, which are for one caller, and are asked for by somebody waiting;
//   - route classes and plans: a class has no candidates. What an edit of its cost
//     makes impossible is refused, what it makes dearer takes effect at once;
//   - whatever says IMMEDIATE, and the import of a rule file into an empty domain.
//
// That an edit is looser is no reason to let it pass: to tell that would take more
// than comparing numbers (a route, an identity, a window may have changed, too), and
// who is in a hurry can say so. While a rollout of a rule is under way all other
// edits of it are refused with CodeRolloutInProgress; RollbackRule gives it up,
// AdvanceRollout takes it on. Whatever is written, by anybody, has to be valid also
// once every rollout is through, so that a promotion finds no fault. Rollbacks and
// ShadowRule are exempt, which nothing may stand in the way of; a rollout that is at
// odds with them in the end is given up when it is to be promoted.
package book
