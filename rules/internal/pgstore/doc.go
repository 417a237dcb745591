// Package pgstore keeps the rules in PostgreSQL (tested with 15) for any number of
// instances of the rules service.
//
// # The order of writes
//
// A write updates the one row of the table ledger before it looks at anything, and so
// holds that row until it has committed: revisions become visible in their order.
// What it appends is kept aside and sent when f has returned: whether it is one
// override or 40,000 of them, it is one statement a table.
//
// # The tables
//
// changes is the log, and the audit: whole items, in the JSON of protobuf, since it
// is read by people in psql too. JSON keeps 64-bit integers as texts and doubles
// as the shortest decimal that reads back as the same double, and jsonb keeps
// decimals exactly; so nothing is lost, at about twice the room of protobuf's bytes.
// What is deleted leaves its tombstone there. Nothing is ever taken out of it.
//
// All other tables are what is in force, in columns, so that the database can refuse
// what the service should have refused: bounds by CHECK, the names of other items by
// foreign keys, the numbers of versions by unique indexes. ErrRefused names what
// was broken. Whether two overrides of one key overlap in time only the service can
// tell, which knows how keys are spelled.
//
// # Connections
//
// Everything but hints works behind a pooler in transaction mode (pgbouncer): no
// state of a session is used, no statement is prepared under a name, timeouts are set
// in each transaction. That goes for migrations too: goose takes a row of the
// table goose_lock, with a lease of 30 s, not an advisory lock, so that several
// instances may start at once behind a pooler. LISTEN needs a session, and so a URL
// of its own that leads to the server itself.
//
// The database may be away at any time, also when the service starts: calls answer
// ledger.ErrUnavailable meanwhile, and connections are made again when it is back. A
// call whose connection turns out to be dead is tried once more, a write only if
// its commit has not been sent. Every statement has a timeout, here and in the
// database, and a writer that has died or hangs loses its lock after idleTimeout.
package pgstore
