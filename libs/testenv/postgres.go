package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/shiplane/limits/libs/testenv/port"
	"github.com/shiplane/limits/libs/testenv/process"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// superuser is the role that initdb makes, and its database.
const superuser = "postgres"

// PostgresConfig says how a PostgreSQL server runs.
type PostgresConfig struct {
	// Address is an IPv4 loopback address: Loopback if empty.
	Address string

	// Dir is an empty folder, or a new one, for the server's files and its log.
	// It is left alone by Close. Empty means a temporary one, which Close
	// removes. If this process is root's, the server runs as another user, who
	// must be allowed to enter all folders above.
	Dir string

	// Config are settings, as in postgresql.conf.
	Config map[string]string

	// Proxied puts a proxy in front of the server.
	Proxied bool
}

// Postgres is a PostgreSQL server with one role, postgres, that signs in by
// password (scram-sha-256). It is running or dead; its data outlives a Restart,
// not a crash of the machine. Its methods are safe for concurrent use.
type Postgres struct {
	cfg      PostgresConfig
	dir      string
	bin      string
	user     *syscall.Credential // nil: this process's
	password string
	port     *port.Port
	proxy    *tcpproxy.Proxy // nil unless proxied
	close    sync.Once
	left     error // what Close could not do

	mu      sync.Mutex
	process *process.Process // nil until started
}

// StartPostgres makes a database, starts its server and waits until it accepts
// connections.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Postgres, error) {
	if cfg.Address == "" {
		cfg.Address = Loopback
	}
	dir, err := folder(cfg.Dir, "shiplane-postgres-")
	if err != nil {
		return nil, fmt.Errorf("start postgres: %w", err)
	}
	p := &Postgres{cfg: cfg, dir: dir, password: rand.Text()}
	err = p.prepare(ctx)
	if err == nil {
		err = p.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start postgres: %w", err), p.Close())
	}
	return p, nil
}

// prepare takes the ports and makes the database.
func (p *Postgres) prepare(ctx context.Context) error {
	var err error
	if p.bin, err = postgresPrograms(); err != nil {
		return err
	}
	if p.user, err = unprivileged(); err != nil {
		return err
	}
	if p.port, err = port.Reserve(p.cfg.Address); err != nil {
		return err
	}
	if p.cfg.Proxied {
		if p.proxy, err = tcpproxy.Listen(p.cfg.Address, p.port.String()); err != nil {
			return err
		}
	}
	secret := filepath.Join(p.dir, "password")
	if err := os.WriteFile(secret, []byte(p.password+"\n"), 0o600); err != nil {
		return err
	}
	if p.user != nil {
		for _, path := range []string{p.dir, secret} {
			if err := os.Chown(path, int(p.user.Uid), int(p.user.Gid)); err != nil {
				return err
			}
		}
	}
	return p.initialise(ctx, secret)
}

// initialise runs initdb.
func (p *Postgres) initialise(ctx context.Context, secret string) error {
	initdb, err := p.run("initdb", "--pgdata="+p.data(), "--username="+superuser, "--pwfile="+secret,
		"--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	select {
	case <-initdb.Done():
		err = initdb.Err()
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), endInitdb(initdb))
	}
	if err != nil {
		return fmt.Errorf("initdb: %w; the end of %s:\n%s", err, p.Log(), process.Tail(p.Log(), logLines))
	}
	return nil
}

// endInitdb lets initdb end at its next step: killed, it would leave the server that
// it runs at the moment, and with that one's folder gone, its shared memory.
func endInitdb(initdb *process.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), postgresEnd)
	defer cancel()
	return initdb.Stop(ctx, syscall.SIGTERM)
}

// run starts one of Postgres' programs in its folder, as its user.
func (p *Postgres) run(program string, args ...string) (*process.Process, error) {
	return process.Start(process.Config{
		Args: append([]string{filepath.Join(p.bin, program)}, args...),
		Dir:  p.dir,
		User: p.user,
		Log:  p.Log(),
		// An immediate shutdown: the server's own children end with it, and its
		// shared memory is given back.
		Orphaned: syscall.SIGQUIT,
	})
}

// start starts the server and waits until it accepts connections.
func (p *Postgres) start(ctx context.Context) error {
	settings := map[string]string{
		"listen_addresses":        p.cfg.Address,
		"port":                    strconv.Itoa(p.port.Number()),
		"unix_socket_directories": "",
		// A commit is written, but not to the disk: it outlives the server, not a power cut.
		"fsync":            "off",
		"full_page_writes": "off",
	}
	maps.Copy(settings, p.cfg.Config)
	args := []string{"-D", p.data()}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	started, err := p.run("postgres", args...)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.process = started
	p.mu.Unlock()
	err = until(ctx, func(ctx context.Context) error {
		if !started.Running() {
			return errGone
		}
		return exec.CommandContext(ctx, filepath.Join(p.bin, "pg_isready"),
			"--quiet", "--host="+p.cfg.Address, "--port="+strconv.Itoa(p.port.Number())).Run()
	})
	if err == nil && p.proxy != nil {
		err = p.proxy.Open()
	}
	if err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, p.Log(), process.Tail(p.Log(), logLines))
	}
	return nil
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

// Address is where clients reach the server, as ip:port: its proxy, if it has one.
func (p *Postgres) Address() string {
	if p.proxy != nil {
		return p.proxy.Address()
	}
	return p.port.String()
}

// PID is the number of the server's process, the last one if it is dead.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.PID()
}

// Running reports whether the server has not ended.
func (p *Postgres) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Running()
}

// Proxy stands in front of the server; nil unless it is Proxied.
func (p *Postgres) Proxy() *tcpproxy.Proxy { return p.proxy }

// URL names the server, its superuser with the password, and a database.
func (p *Postgres) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, p.password),
		Host:     p.Address(),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Dir is the folder of the server's files.
func (p *Postgres) Dir() string { return p.dir }

// Log is the path of the server's log. It is continued by Restart.
func (p *Postgres) Log() string { return filepath.Join(p.dir, "postgres.log") }

// Kill ends the server by SIGQUIT without a checkpoint, as a crash does: it
// recovers when it is started again. Connections end, new ones are refused, also
// by its proxy. It is gone when Kill returns.
func (p *Postgres) Kill() {
	ctx, cancel := context.WithTimeout(context.Background(), postgresEnd)
	defer cancel()
	p.end(ctx, syscall.SIGQUIT) //nolint:errcheck // gone in any case
}

// Stop ends the server in order, by SIGINT: connections are ended, what was
// written is kept. When ctx ends it is killed, and the error says so.
func (p *Postgres) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGINT) }

func (p *Postgres) end(ctx context.Context, signal syscall.Signal) error {
	if p.proxy != nil {
		p.proxy.Shut()
	}
	p.mu.Lock()
	running := p.process
	p.mu.Unlock()
	if running == nil {
		return nil
	}
	return running.Stop(ctx, signal)
}

// Restart starts the server again on its address, killing it first if it is not
// dead, and waits until it accepts connections.
func (p *Postgres) Restart(ctx context.Context) error {
	p.Kill()
	if err := p.start(ctx); err != nil {
		return fmt.Errorf("restart postgres: %w", err)
	}
	return nil
}

// Close kills the server and removes its temporary folder. Its error is about
// that folder; the server is gone in any case. A second call does nothing.
func (p *Postgres) Close() error {
	p.close.Do(func() {
		p.Kill()
		if p.proxy != nil {
			p.proxy.Close()
		}
		if p.port != nil {
			p.port.Release()
		}
		if p.cfg.Dir == "" {
			p.left = os.RemoveAll(p.dir)
		}
	})
	return p.left
}
