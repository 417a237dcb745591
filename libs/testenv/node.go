package testenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/testenv/port"
	"github.com/shiplane/limits/libs/testenv/process"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// logLines is how much of a log stands in an error.
const logLines = 15

// Node is one redis-server. It is running, frozen or dead. Its methods are safe
// for concurrent use.
type Node struct {
	servers *Redis
	name    string
	dir     string
	id      string
	port    *port.Port
	bus     *port.Port      // nil if standalone
	proxy   *tcpproxy.Proxy // nil unless proxied

	mu      sync.Mutex
	process *process.Process // nil until started
	frozen  bool
	client  rueidis.Client // nil until it answered for the first time
}

// newNode makes a node's folder and takes its ports. What it has is returned
// with an error too, to be ended.
func newNode(r *Redis, name string, cluster bool) (*Node, error) {
	n := &Node{servers: r, name: name, dir: filepath.Join(r.dir, name)}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if n.port, err = port.Reserve(r.cfg.Address); err != nil {
		return n, err
	}
	if cluster {
		if n.bus, err = port.Reserve(r.cfg.Address); err != nil {
			return n, err
		}
	}
	if r.cfg.Proxied {
		n.proxy, err = tcpproxy.Listen(r.cfg.Address, n.port.String())
	}
	return n, err
}

// Name is the node's for people: node-00 and on, in the order of Nodes.
func (n *Node) Name() string { return n.name }

// ID is the node's in its cluster, 40 hex digits; empty if it is standalone.
func (n *Node) ID() string { return n.id }

// Address is where clients reach the node, as ip:port: its proxy, if it has one.
func (n *Node) Address() string {
	if n.proxy != nil {
		return n.proxy.Address()
	}
	return n.port.String()
}

// Proxy stands in front of the node; nil unless the servers are Proxied.
func (n *Node) Proxy() *tcpproxy.Proxy { return n.proxy }

// PID is the number of the node's process, the last one if it is dead, 0 before
// the first.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process == nil {
		return 0
	}
	return n.process.PID()
}

// Log is the path of the node's log. It is continued by Restart.
func (n *Node) Log() string { return filepath.Join(n.dir, "redis.log") }

func (n *Node) conf() string { return filepath.Join(n.dir, "redis.conf") }

// Client speaks to this very node, past its proxy, with all rights. It retries
// nothing and follows no redirection. It reconnects after Restart.
func (n *Node) Client() rueidis.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.client
}

// Do sends one command to this very node.
func (n *Node) Do(ctx context.Context, command ...string) rueidis.RedisResult {
	client := n.Client()
	return client.Do(ctx, client.B().Arbitrary(command...).Build())
}

// order is Do for commands whose reply says no more than OK. The error names the
// node and the command.
func (n *Node) order(ctx context.Context, command ...string) error {
	if err := n.Do(ctx, command...).Error(); err != nil {
		return fmt.Errorf("%s: %.80s: %w", n.name, strings.Join(command, " "), err)
	}
	return nil
}

// Running reports whether the node can answer: it is neither dead nor frozen.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process != nil && n.process.Running() && !n.frozen
}

// Frozen reports whether the node is stopped in its tracks: it is neither dead nor
// running.
func (n *Node) Frozen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process != nil && n.process.Running() && n.frozen
}

// Kill ends the node by SIGKILL, as a crash does. Connections to it end, and new
// ones are refused, also by its proxy. It is gone when Kill returns.
func (n *Node) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil {
		n.process.Kill()
	}
	if n.proxy != nil {
		n.proxy.Shut()
	}
	n.frozen = false
}

// Stop ends the node as an operator does, by SIGTERM; when ctx ends it is killed
// and the error says so.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	running := n.process
	n.mu.Unlock()
	err := running.Stop(ctx, syscall.SIGTERM)
	n.Kill()
	return err
}

// Freeze stops the node in its tracks: its connections stay open, new ones are
// accepted by the kernel, and nothing is answered until Thaw.
func (n *Node) Freeze() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.process.Freeze(); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.frozen = true
	return nil
}

// Thaw lets a frozen node go on where it was: what was sent to it meanwhile is
// executed.
func (n *Node) Thaw() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.process.Thaw(); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.frozen = false
	return nil
}

// Restart starts the node again on its addresses, killing it first if it is not
// dead, and waits until it answers. Its data and its scripts are lost, what it
// knows of its cluster is not: WaitHealthy waits until it has rejoined.
func (n *Node) Restart(ctx context.Context) error {
	n.Kill()
	if err := n.start(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	return nil
}

// start starts the process and waits until it answers.
func (n *Node) start(ctx context.Context) error {
	args := append(n.servers.cfg.Command[:len(n.servers.cfg.Command):len(n.servers.cfg.Command)], n.conf())
	started, err := process.Start(process.Config{Args: args, Dir: n.dir, Log: n.Log()})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.process = started
	n.mu.Unlock()
	err = until(ctx, func(ctx context.Context) error {
		if !started.Running() {
			return errGone
		}
		return n.ping(ctx)
	})
	if err == nil && n.proxy != nil {
		err = n.proxy.Open()
	}
	if err != nil {
		return fmt.Errorf("%s: %w; the end of %s:\n%s", n.name, err, n.Log(), process.Tail(n.Log(), logLines))
	}
	return nil
}

// ping succeeds once the node answers, and connects its client before.
func (n *Node) ping(ctx context.Context) error {
	if n.Client() == nil {
		client, err := n.dial()
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.client = client
		n.mu.Unlock()
	}
	if err := n.Do(ctx, "PING").Error(); err != nil || n.bus == nil || n.id != "" {
		return err
	}
	id, err := n.Do(ctx, "CLUSTER", "MYID").ToString()
	n.id = id
	return err
}

func (n *Node) dial() (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:         []string{n.port.String()},
		Username:            n.servers.admin.Name,
		Password:            n.servers.admin.Password,
		TLSConfig:           n.servers.TLS(),
		ForceSingleClient:   true,
		DisableRetry:        true,
		DisableCache:        true,
		AlwaysPipelining:    true, // a deadline must not cost the connection
		AlwaysRESP2:         true, // RESP3 has texts begin with "txt:"
		PipelineMultiplex:   -1,   // one connection
		RingScaleEachConn:   8,
		ReadBufferEachConn:  32 << 10,
		WriteBufferEachConn: 32 << 10,
		ClientSetInfo:       rueidis.DisableClientSetInfo,
	})
}

// end ends all that the node has.
func (n *Node) end() {
	n.Kill()
	if client := n.Client(); client != nil {
		client.Close()
	}
	if n.proxy != nil {
		n.proxy.Close()
	}
	for _, p := range []*port.Port{n.port, n.bus} {
		if p != nil {
			p.Release()
		}
	}
}
