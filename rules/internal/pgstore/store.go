package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	// connsDefault is for an instance: a write holds one connection, and waiting
	// ones none. Three instances take a quarter of PostgreSQL's default of 100.
	connsDefault = 8
	// connectTimeout bounds the making of a connection.
	connectTimeout = 5 * time.Second
)

// Config says where the database is.
type Config struct {
	// URL names the database, as postgres://user@host:port/name?sslmode=verify-full or
	// in the form of libpq. It may lead to a pooler in transaction mode.
	URL string
	// ListenURL names the same database by a way that keeps sessions. Empty: no
	// hints come, and Wait says so.
	ListenURL string
	// Password is asked before each connection, so that it may change; nil: that of
	// the URL, PGPASSWORD or the password file of libpq.
	Password func(context.Context) (string, error)
	// MaxConns bounds the connections of the pool; 0 for connsDefault. The listener
	// has one beside.
	MaxConns int32
	// Logger is told when hints stop and come again, and of migrations; nil: nobody is.
	Logger *slog.Logger
}

// Store implements ledger.Store.
type Store struct {
	pool    *pgxpool.Pool
	direct  *pgx.ConnConfig // of the listener; nil for none
	log     *slog.Logger
	writing chan struct{} // held by the one write of this instance that may wait for the lock
	hints   hints

	close   context.CancelFunc
	running sync.WaitGroup
}

var _ ledger.Store = (*Store)(nil)

// Open makes a store. The database need not be there yet; a fault of cfg is an
// error. Migrate must have succeeded once, here or elsewhere, before the store is
// of use. Close it at the end.
func Open(cfg Config) (*Store, error) {
	pooled, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("the rules database's URL: %w", err) // pgx does not show the password
	}
	pooled.MaxConns = cmp.Or(cfg.MaxConns, connsDefault)
	prepare(pooled.ConnConfig)
	s := &Store{log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), writing: make(chan struct{}, 1)}
	s.hints.changed = make(chan struct{})
	if cfg.ListenURL != "" {
		if s.direct, err = pgx.ParseConfig(cfg.ListenURL); err != nil {
			return nil, fmt.Errorf("the rules database's URL to listen: %w", err)
		}
		prepare(s.direct)
	}
	if cfg.Password != nil {
		pooled.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) (err error) {
			c.Password, err = cfg.Password(ctx)
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.close = cancel
	if s.pool, err = pgxpool.NewWithConfig(ctx, pooled); err != nil {
		cancel()
		return nil, fmt.Errorf("the rules database: %w", err)
	}
	if s.direct != nil {
		s.running.Go(func() { s.listen(ctx, cfg.Password) })
	}
	return s, nil
}

// prepare sets what all connections have in common. Statements are not prepared: a
// pooler gives each transaction another session.
func prepare(c *pgx.ConnConfig) {
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.StatementCacheCapacity, c.DescriptionCacheCapacity = 0, 0
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "shiplane-rules"
	}
}

// Close ends all connections. Calls under way fail.
func (s *Store) Close() {
	s.close()
	s.running.Wait()
	s.pool.Close()
}
