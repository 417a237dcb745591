package tcpproxy

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	// chunkMax is the size of the reads, in bytes: a reply's, amply.
	chunkMax = 32 << 10
	// queueMax is how many chunks are on the wire in one direction. Beyond it
	// the sender is held up, as by a full TCP window.
	queueMax = 1024
	// resendAfter is Linux's least time before it sends a lost segment again,
	// and resendDoublings how often it doubles here.
	resendAfter     = 200 * time.Millisecond
	resendDoublings = 6
)

// link is one client's connection and its continuation to the server.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	done   <-chan struct{} // closed when both connections are
	finish func()          // closes done

	mu     sync.Mutex
	server *net.TCPConn // nil until connected
	ended  bool
}

type chunk struct {
	bytes   []byte
	arrived time.Time
}

// connect reports whether the link was still there to get its second half.
func (l *link) connect(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		server.Close()
		return false
	}
	l.server = server
	return true
}

// run forwards in both directions until both have ended.
func (l *link) run() {
	defer l.close()
	var directions sync.WaitGroup
	directions.Go(func() { l.pump(l.client, l.server, false) })
	directions.Go(func() { l.pump(l.server, l.client, true) })
	directions.Wait()
}

// pump forwards one direction until its source ends, and then says so to its
// destination. The queue in between is the wire.
func (l *link) pump(from, to *net.TCPConn, replies bool) {
	queue := make(chan chunk, queueMax)
	go l.read(from, queue)
	for c := range queue {
		if !l.travel(c, replies) {
			break
		}
		if _, err := to.Write(c.bytes); err != nil {
			l.close()
			break
		}
	}
	for range queue { // after a break: until read has noticed
	}
	if err := to.CloseWrite(); err != nil {
		l.close()
	}
}

// read ends when its source does, or the link.
func (l *link) read(from *net.TCPConn, queue chan<- chunk) {
	defer close(queue)
	buffer := make([]byte, chunkMax)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case queue <- chunk{bytes.Clone(buffer[:n]), time.Now()}:
			case <-l.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// travel returns true when the chunk arrives, and false if the link ended first.
func (l *link) travel(c chunk, reply bool) bool {
	losses := 0
	for {
		faults, changed := l.proxy.wire()
		age := time.Since(c.arrived)
		switch {
		case faults.Silent:
			if !l.wait(changed) {
				return false
			}
		case !reply:
			return true
		case age < faults.Delay:
			if !l.waitFor(faults.Delay-age, changed) {
				return false
			}
		case rand.Float64() < faults.Cut:
			l.reset()
			return false
		case rand.Float64() < faults.Loss:
			if !l.waitFor(resendAfter<<losses, changed) {
				return false
			}
			losses = min(losses+1, resendDoublings)
		default:
			return true
		}
	}
}

// wait returns when the faults change; false if the link ended first.
func (l *link) wait(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-l.done:
		return false
	}
}

// waitFor is wait, but no longer than d.
func (l *link) waitFor(d time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-changed:
		return true
	case <-l.done:
		return false
	}
}

// reset ends both connections with an error for whoever reads or writes them.
func (l *link) reset() {
	l.end(func(c *net.TCPConn) { c.SetLinger(0) }) //nolint:errcheck // it fails only if the other side has ended it
}

func (l *link) close() {
	l.end(func(*net.TCPConn) {})
}

func (l *link) end(before func(*net.TCPConn)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			before(c)
			c.Close()
		}
	}
	l.finish()
}
