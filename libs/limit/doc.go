// Package limit is the vocabulary that every other package speaks: who is
// counted (Subject), how much is allowed (Limit), by which Rule, what one
// request asks for (Request) and what came of it (Decision).
//
// It does no I/O and knows nothing of protobuf, Connect, Redis or Postgres.
// All its values are plain data. A *Rule is immutable once it was handed to a
// limiter or a store, and may be shared by any number of goroutines.
package limit
