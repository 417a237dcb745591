// Package ledger is the contract of what keeps the rules: an ordered log of
// changes, and the state that they add up to.
//
// # One order
//
// There is one revision for all domains. A write takes a lock on it before it
// looks at anything, makes the next revision, and holds the lock until it has
// committed: so revisions become visible in their order, none is ever skipped,
// and "what came after revision v" is complete the moment it is asked. A counter
// that is drawn without the lock (a sequence) can commit out of order, and a
// reader that has seen 8 would never look at 7 again.
//
// Nothing is forgotten: what is deleted stays as a tombstone, so that an id that
// is used again goes on with the version after its last one.
//
// # What an error means
//
// ErrUnavailable: the database cannot be asked at the moment. A Write that
// returns it may have been committed, which the caller cannot know; a reader will
// see. All other errors say that nothing was written.
package ledger
