// Package watch brings each change of the rules to the pods, and takes what they
// tell of them.
//
// # One encoding
//
// Thousands of pods watch one instance, and all are sent the same. A change is
// encoded once, when the Hub learns of it; a watcher costs a copy of those bytes
// with the time behind them. The whole is encoded once, too, cut into parts; it is
// used again as long as the changes since then are few against it, because the
// whole of a moment ago and what came after it are the whole. So pods that all
// come at once cost one encoding. Nothing is compressed: that would be done for
// each watcher anew, at more than all else costs, and a change is a few hundred
// bytes.
//
// # A watcher's queue is the log
//
// Of each domain a bounded log of the last changes is kept, and a watcher is a
// place in it. It holds no queue of its own, and whoever is slow takes nothing from
// the others: if its place is dropped from the log, or it takes nothing for a
// while, its watch ends with UNAVAILABLE, and it comes again with the revision that
// it has. A watcher whose revision is a place in the log is sent what came after
// it; any other is sent the whole.
//
// A revision that is ahead of this instance is most often one that another
// instance has told first: it is waited for, for a moment. If it does not come, the
// database has been put back to an earlier state, and the whole is sent.
//
// # Failure
//
// A Hub holds all that it sends in memory and needs no database: while that is
// away, pods come and go as before. Reports are kept for a second and then stored
// together; those that cannot be stored are dropped, because counts go from a pod's
// start on, and the next report says it all again.
package watch
