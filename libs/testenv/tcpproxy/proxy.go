// Package tcpproxy stands between clients and a server of one machine and does
// to their connections what networks do: it delays, loses, cuts, falls silent
// and refuses.
package tcpproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/testenv/port"
)

// acceptPause is the time to the next try when the process is out of files.
const acceptPause = 10 * time.Millisecond

// Faults is the state of the wire. The zero value is a healthy one. A chunk is
// what one side wrote at once, as far as TCP keeps it together: a reply, or
// several that were written together.
type Faults struct {
	// Delay is added to every chunk of replies. It costs no throughput: what
	// was sent together arrives together, later.
	Delay time.Duration

	// Loss is the probability, 0 to 1, that a chunk of replies is lost. As in
	// TCP it is sent again after 200 ms, 400 ms and so on, each time at the same
	// risk, and what is behind it waits: the stream never has a hole. To a
	// caller with a short deadline the reply is lost, the request was executed.
	Loss float64

	// Cut is the probability, 0 to 1, that the connection is reset in place of
	// a chunk of replies: the request was executed, and the caller knows at
	// once that it will not hear of it.
	Cut float64

	// Silent lets nothing pass in either direction while connections stay open.
	// What was sent meanwhile arrives when it ends, as after a short partition.
	Silent bool
}

// Validate names a field that is out of range.
func (f Faults) Validate() error {
	switch {
	case f.Delay < 0:
		return fmt.Errorf("faults: delay %v, want 0 or more", f.Delay)
	case !(f.Loss >= 0 && f.Loss <= 1):
		return fmt.Errorf("faults: loss %v, want 0 to 1", f.Loss)
	case !(f.Cut >= 0 && f.Cut <= 1):
		return fmt.Errorf("faults: cut %v, want 0 to 1", f.Cut)
	}
	return nil
}

// Proxy forwards connections to one server. Its methods are safe for concurrent use.
type Proxy struct {
	target   string
	port     *port.Port
	accepted atomic.Int64
	running  sync.WaitGroup // accept loops and links

	mu       sync.Mutex
	closed   bool
	listener net.Listener // nil while shut
	links    map[*link]struct{}
	faults   Faults
	changed  chan struct{} // closed when faults change
}

// Listen starts a proxy on a free port of a loopback address, for the server at
// target (host:port), which need not run yet. A client whose connection the
// server refuses is reset.
func Listen(address, target string) (*Proxy, error) {
	reserved, err := port.Reserve(address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, port: reserved, links: map[*link]struct{}{}, changed: make(chan struct{})}
	if err := p.Open(); err != nil {
		reserved.Release()
		return nil, err
	}
	return p, nil
}

// Address returns where clients connect, as ip:port.
func (p *Proxy) Address() string { return p.port.String() }

// Port returns the port where clients connect.
func (p *Proxy) Port() int { return p.port.Number() }

// Set makes the wire what faults say, for open connections and new ones, at
// once: Set(Faults{}) heals it. The error names a value out of range.
func (p *Proxy) Set(faults Faults) error {
	if err := faults.Validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = faults
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// Faults returns the state of the wire.
func (p *Proxy) Faults() Faults {
	faults, _ := p.wire()
	return faults
}

// wire returns the faults, and what is closed when they change.
func (p *Proxy) wire() (faults Faults, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

// Shut refuses new connections, as a host without a server does; those that are
// open stay so.
func (p *Proxy) Shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Open accepts connections again. It fails after Close.
func (p *Proxy) Open() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return fmt.Errorf("open proxy %s: %w", p.port, net.ErrClosed)
	case p.listener != nil:
		return nil
	}
	listener, err := net.Listen("tcp", p.port.String())
	if err != nil {
		return fmt.Errorf("open proxy: %w", err)
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(acceptPause)
			continue
		}
		p.accepted.Add(1)
		p.running.Go(func() { p.forward(client.(*net.TCPConn)) })
	}
}

func (p *Proxy) forward(client *net.TCPConn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &link{proxy: p, client: client, done: ctx.Done(), finish: cancel}
	if !p.add(l) {
		l.reset()
		return
	}
	defer p.remove(l)
	server, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil || !l.connect(server.(*net.TCPConn)) {
		l.reset()
		return
	}
	l.run()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.links[l] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// Cut resets all open connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

// Connections returns how many connections are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Accepted returns how many connections were opened since the proxy was made.
func (p *Proxy) Accepted() int64 { return p.accepted.Load() }

// Close refuses and resets everything, waits until nothing of the proxy runs and
// gives up its port. A second call does nothing.
func (p *Proxy) Close() {
	p.Shut()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
	p.port.Release()
}
