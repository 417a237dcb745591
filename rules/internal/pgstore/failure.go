package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shiplane/limits/rules/internal/ledger"
)

// Classes of SQLSTATE, and members of them, as PostgreSQL's manual lists them in
// appendix A.
const (
	classData      = "22" // a value that the database cannot hold
	classIntegrity = "23" // a constraint
	classRollback  = "40" // a deadlock
	classShutdown  = "57" // the server stops or starts, or a timeout

	noSuchTable  = "42P01"
	noSuchColumn = "42703"
	noSuchType   = "42704"

	uniqueViolation = "23505"
	duplicateTable  = "42P07"
	duplicateObject = "42710"
)

// unavailable are classes that mean: not now, or not here.
var unavailable = map[string]bool{
	"08": true, "25": true, "28": true, "3D": true, classRollback: true, "53": true, "55": true, classShutdown: true, "58": true, "XX": true,
}

// failure makes an error of pgx one of the ledger's. ctx is the caller's.
func failure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return ledger.ErrNotFound
	}
	for _, known := range []error{ledger.ErrNotFound, ledger.ErrCompacted, ledger.ErrRefused, ledger.ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	var told *pgconn.PgError
	if !errors.As(err, &told) {
		if outside(err) {
			return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
		}
		return fmt.Errorf("the rules database: %w", err)
	}
	switch {
	case told.Code[:2] == classIntegrity || told.Code[:2] == classData:
		return refused(told)
	case unavailable[told.Code[:2]]:
		return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
	case told.Code == noSuchTable || told.Code == noSuchColumn || told.Code == noSuchType:
		return fmt.Errorf("%w: its tables are not there yet: %w", ledger.ErrUnavailable, err)
	}
	return fmt.Errorf("the rules database: %w", err)
}

// refused says which constraint a write broke. The database's detail is for the log
// of the database: it repeats values.
func refused(told *pgconn.PgError) error {
	where := cmp.Or(told.TableName, told.DataTypeName)
	return fmt.Errorf("%w: %s", ledger.ErrRefused, strings.Join(nonEmpty(where, told.ColumnName, told.ConstraintName, told.Message), ": "))
}

func nonEmpty(texts ...string) (kept []string) {
	for _, text := range texts {
		if text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

// outside reports an error that no answer of the database is, nor a fault of ours in
// reading one: the way to it has failed.
func outside(err error) bool {
	var scan pgx.ScanArgError
	return !errors.As(err, &scan) && !errors.Is(err, pgx.ErrTooManyRows) && !errors.Is(err, errDecode)
}

// disconnected reports that a connection has ended, by the server or on the way.
func disconnected(err error) bool {
	var told *pgconn.PgError
	if errors.As(err, &told) {
		return told.Code[:2] == "08" || told.Code[:2] == classShutdown && strings.HasPrefix(told.Code, "57P")
	}
	return outside(err)
}

// again reports an error after which the same may be tried once more: what was done
// so far is undone.
func again(err error) bool {
	for _, known := range []error{ledger.ErrNotFound, ledger.ErrCompacted, ledger.ErrRefused, pgx.ErrNoRows} {
		if errors.Is(err, known) {
			return false
		}
	}
	var told *pgconn.PgError
	if errors.As(err, &told) && told.Code[:2] == classRollback {
		return true
	}
	return disconnected(err)
}

// undone reports that a failed COMMIT is known to have committed nothing: the
// database has refused it, and lives. All else may have happened after the fact.
func undone(err error) bool {
	var told *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) ||
		errors.As(err, &told) && told.Severity == "ERROR" && (told.Code[:2] == classIntegrity || told.Code[:2] == classRollback)
}
