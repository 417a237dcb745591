package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// readTimeout bounds a read, with the wait for a connection and a second try.
	// The whole of 100,000 overrides takes about a second.
	readTimeout = 15 * time.Second
	// writeStatement bounds one statement of a write: 40,000 overrides at once take
	// a few seconds.
	writeStatement = 30 * time.Second
	// idleTimeout is how long a writer may do nothing between two statements: then
	// it is taken for dead, and the database frees its lock.
	idleTimeout = 10 * time.Second
	// lockTimeout bounds the wait for another instance's write. It is longer than
	// idleTimeout, so that whoever waits outlives a dead writer.
	lockTimeout = 15 * time.Second
	// slack is how much later than the database we give a statement up: only if
	// the database itself does not answer.
	slack = 5 * time.Second
	// tries is how often a call is made whose connection turns out to be dead: after
	// a restart of the database the second one gets a new connection.
	tries = 2
)

// begin returns the statement that begins a transaction with its timeouts. They are
// the transaction's: a pooler hands the session on.
func begin(mode string, statement time.Duration) string {
	return fmt.Sprintf("BEGIN %s; SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; SET LOCAL idle_in_transaction_session_timeout = %d",
		mode, statement.Milliseconds(), lockTimeout.Milliseconds(), idleTimeout.Milliseconds())
}

// read runs f in a transaction that sees the database at one moment. f may be run
// twice.
func (s *Store) read(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.transact(ctx, begin("ISOLATION LEVEL REPEATABLE READ READ ONLY", readTimeout), f)
}

// change runs f in a transaction that writes what is no part of the ledger. f may be
// run twice, and so may what it does.
func (s *Store) change(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.transact(ctx, begin("ISOLATION LEVEL READ COMMITTED", readTimeout), f)
}

func (s *Store) transact(ctx context.Context, begin string, f func(ctx context.Context, tx pgx.Tx) error) error {
	within, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	for try := 1; ; try++ {
		done := false
		err := pgx.BeginTxFunc(within, s.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
			err := f(within, tx)
			done = err == nil
			return err
		})
		if err == nil {
			return nil
		}
		if done || try == tries || within.Err() != nil || !again(err) {
			return failure(ctx, err)
		}
		s.renew(err)
	}
}

// renew makes the pool drop the connections that a restart of the database has
// ended.
func (s *Store) renew(err error) {
	if disconnected(err) {
		s.pool.Reset()
	}
}
