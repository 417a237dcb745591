package pgstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/ledger/ledgertest"
	"github.com/shiplane/limits/rules/internal/pgstore"
)

// patience bounds what waits for an event; nothing is timed.
const patience = 60 * time.Second

// databases makes empty databases of one server, by their numbers.
type databases struct {
	server *testenv.Postgres
	made   atomic.Int64
}

// start starts a server. Its databases sort texts as people do, not as programs do.
func start(t *testing.T, cfg testenv.PostgresConfig) *databases {
	t.Helper()
	d := &databases{server: envtest.Postgres(t, cfg)}
	d.exec(t, "postgres", `CREATE DATABASE blank TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`)
	s := open(t, pgstore.Config{URL: d.server.URL("blank"), Logger: slog.New(slog.DiscardHandler)})
	if err := s.Migrate(limited(t)); err != nil {
		t.Fatal(err)
	}
	s.Close()
	return d
}

// exec runs a statement as the superuser.
func (d *databases) exec(t *testing.T, database, statement string) {
	t.Helper()
	conn, err := pgx.Connect(limited(t), d.server.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(limited(t), statement); err != nil {
		t.Fatal(err)
	}
}

// fresh makes a database with tables and returns its URL.
func (d *databases) fresh(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("t%d", d.made.Add(1))
	d.exec(t, "postgres", fmt.Sprintf(`CREATE DATABASE %s TEMPLATE blank`, name))
	return d.server.URL(name)
}

// open opens a store that is closed with the test.
func open(t *testing.T, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := pgstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// The store in PostgreSQL keeps the ledger's contract.
func TestLedger(t *testing.T) {
	d := start(t, testenv.PostgresConfig{})
	ledgertest.Run(t, func(t *testing.T) func() ledger.Store {
		cfg := pgstore.Config{URL: d.fresh(t)}
		cfg.ListenURL = cfg.URL
		return func() ledger.Store { return open(t, cfg) }
	})
}
