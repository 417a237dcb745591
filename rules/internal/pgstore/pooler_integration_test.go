package pgstore_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/port"
	"github.com/shiplane/limits/libs/testenv/process"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/ledger/ledgertest"
	"github.com/shiplane/limits/rules/internal/pgstore"
)

// The store keeps the ledger's contract behind a pooler in transaction mode too,
// migrations included, where each transaction gets another session and nobody can
// listen. Without pgbouncer the test is skipped.
func TestLedgerBehindAPooler(t *testing.T) {
	d := start(t, testenv.PostgresConfig{})
	pooler := pool(t, d.server)
	ledgertest.Run(t, func(t *testing.T) func() ledger.Store {
		name := fmt.Sprintf("pooled%d", d.made.Add(1))
		d.exec(t, "postgres", "CREATE DATABASE "+name)
		cfg := pgstore.Config{URL: "postgres://anybody@" + pooler + "/" + name + "?sslmode=disable"}
		if err := open(t, cfg).Migrate(limited(t)); err != nil {
			t.Fatal(err)
		}
		return func() ledger.Store { return open(t, cfg) }
	})
}

// pool starts pgbouncer in front of a server, with fewer sessions than the tests use
// connections, and returns its address.
func pool(t *testing.T, server *testenv.Postgres) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not in PATH")
	}
	to, err := url.Parse(server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := to.User.Password()
	reserved, err := port.Reserve(testenv.Loopback)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reserved.Release)
	dir := t.TempDir()
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s password=%s
[pgbouncer]
listen_addr = %s
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
server_idle_timeout = 2
ignore_startup_parameters = extra_float_digits
`, to.Hostname(), to.Port(), to.User.Username(), password, testenv.Loopback, reserved.Number())
	file := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := process.Config{Args: []string{program, file}, Log: filepath.Join(dir, "pgbouncer.log"), Orphaned: syscall.SIGKILL}
	if os.Geteuid() == 0 { // which pgbouncer refuses to stay
		cfg.Args = []string{program, "--user=nobody", file}
	}
	running, err := process.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Kill)
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", reserved.String())
		if err == nil {
			conn.Close()
			return reserved.String()
		}
		if !running.Running() || time.Now().After(deadline) {
			t.Fatalf("pgbouncer: %v; its log:\n%s", err, process.Tail(cfg.Log, 20))
		}
	}
}
