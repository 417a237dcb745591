package pgstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/shiplane/limits/rules/internal/ledger"
)

// migrations are numbered, go forward only, and leave a live table usable by the
// version of the service before them.
//
//go:embed migrations/*.sql
var migrations embed.FS

const (
	// migrateAgain is how long after a failure that may pass a migration is tried
	// again.
	migrateAgain = time.Second
	// migrationLock is how often, and lockTries how many times, an instance looks
	// whether another one's migration is over.
	migrationLock = time.Second
	lockTries     = 300
)

// Migrate brings the tables to this version, or finds that they are. While the
// database cannot be reached it tries again, until ctx ends: its error is then the
// last one it met. Instances that migrate at once wait for each other.
func (s *Store) Migrate(ctx context.Context) error {
	for told := false; ; told = true {
		err := s.migrate(ctx)
		if err == nil {
			return nil
		}
		if err = failure(context.Background(), err); !errors.Is(err, ledger.ErrUnavailable) {
			return fmt.Errorf("migrating the rules database: %w", err)
		}
		if !told && ctx.Err() == nil {
			s.log.Warn("the rules database cannot be migrated yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(migrateAgain):
		}
	}
}

func (s *Store) migrate(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(s.pool)
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresTableLocker(lock.WithTableLockTimeout(migrationLock, lockTries), lock.WithTableLogger(s.log))
	if err != nil {
		return err
	}
	if err := reach(ctx, db); err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	done, err := provider.Up(ctx)
	for _, m := range done {
		s.log.Info("the rules database was migrated", "version", m.Source.Version, "took", m.Duration)
	}
	return raced(err)
}

// reach answers at once if the database is away: the lock would be tried for minutes.
func reach(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return db.PingContext(ctx)
}

// raced marks an error that comes of two instances making the same table, as one that
// passes.
func raced(err error) error {
	var told *pgconn.PgError
	if errors.As(err, &told) && (told.Code == duplicateTable || told.Code == duplicateObject || told.Code == uniqueViolation) {
		return fmt.Errorf("%w: another instance is migrating: %w", ledger.ErrUnavailable, err)
	}
	return err
}
