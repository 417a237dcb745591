package serve

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// ErrStalled is the cause (context.Cause) that ends the context of a request whose
// body stopped coming. An answer to it can still be written.
var ErrStalled = errors.New("the body of the request stopped coming")

// past is a deadline that ends what waits now.
var past = time.Unix(1, 0)

// never is when a timer is due that has not been started.
const never = time.Duration(math.MaxInt64)

// patient bounds how long a client may stall its request: a read of the body that
// brings nothing until the answer begins, or a write of the answer that the client
// does not take. Any byte is progress, so that neither the size nor the length of
// a body is bounded. A request that stalls loses its connection (HTTP/1.1) or its
// stream (HTTP/2).
//
// Once the answer has begun the body may pause, as it does in a stream both ways:
// in HTTP/2, and in HTTP/1.1 for a handler that has enabled full duplex. For others
// net/http reads up to 256 KiB that are left of an HTTP/1.1 body before it sends the
// answer's header, and when the body is closed. What does not come within the
// timeout then is given up: the answer is sent, and the connection is closed.
//
// While the process drains, each answer asks the client to come back on another
// connection.
type patient struct {
	next     http.Handler
	timeout  time.Duration
	draining func() bool
	busy     atomic.Int64 // requests in flight, those on hijacked connections too
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.busy.Add(1)
	defer p.busy.Add(-1)
	e := &exchange{ResponseWriter: w, control: http.NewResponseController(w), timeout: p.timeout, draining: p.draining, http1: r.ProtoMajor == 1}
	if e.http1 {
		_ = e.control.SetWriteDeadline(time.Time{}) // the last request's, see finish
	}
	if r.Body != nil && r.Body != http.NoBody {
		// In a copy: of its own request the server looks at the body to see
		// whether it may leave it unread.
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		e.owed.Store(true)
		body := &patientBody{ReadCloser: r.Body, e: e, cancel: cancel}
		r = r.WithContext(ctx)
		r.Body = body
	}
	defer e.finish()
	p.next.ServeHTTP(e, r)
}

// exchange is one request and its answer. Writes come from one goroutine, reads
// may come from another.
type exchange struct {
	http.ResponseWriter
	control  *http.ResponseController
	timeout  time.Duration
	draining func() bool
	http1    bool
	write    *time.Timer // ends a write; nil before the first one
	unsent   bool        // written since the last flush
	hijacked bool
	answered atomic.Bool // the final header was written
	owed     atomic.Bool // the body has not come to its end
	givenUp  atomic.Bool // nothing more is read of the body
}

func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *exchange) WriteHeader(status int) {
	const final = 200 // lower ones announce another header, but for 101
	if status >= final || status == http.StatusSwitchingProtocols {
		e.begin()
	}
	e.ResponseWriter.WriteHeader(status)
}

func (e *exchange) begin() {
	if e.answered.Swap(true) {
		return
	}
	if e.draining() {
		e.Header().Set("Connection", "close") // in HTTP/2: GOAWAY
	}
}

func (e *exchange) Write(p []byte) (int, error) {
	e.begin()
	e.unsent = true
	e.watchWrite()
	defer e.write.Stop()
	return e.ResponseWriter.Write(p)
}

// FlushError flushes, as http.ResponseController asks for it.
func (e *exchange) FlushError() error {
	e.begin()
	e.unsent = false
	e.watchWrite()
	defer e.write.Stop()
	return e.control.Flush()
}

// Flush flushes, for those who ask for an http.Flusher.
func (e *exchange) Flush() { _ = e.FlushError() }

// Hijack hands the connection over, without deadlines.
func (e *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := e.control.Hijack()
	e.hijacked = err == nil
	return conn, buffered, err
}

// watchWrite lets the write that begins now fail after the timeout. A deadline
// would do for HTTP/1.1, but in HTTP/2 it ends the stream even if nothing is
// being written then.
func (e *exchange) watchWrite() {
	if e.write == nil {
		e.write = time.AfterFunc(never, e.stalledWrite)
	}
	e.write.Reset(e.timeout)
}

// stalledWrite ends a write that does not. In HTTP/1.1 it may wait for the rest of
// the body: once that is given up the write has its own time.
func (e *exchange) stalledWrite() {
	if e.http1 && e.owed.Load() && !e.givenUp.Load() {
		e.write.Reset(e.timeout) // first: the write may end with the next line
		e.giveUpBody()
		return
	}
	_ = e.control.SetWriteDeadline(past)
}

// giveUpBody ends what reads the body.
func (e *exchange) giveUpBody() {
	e.givenUp.Store(true)
	_ = e.control.SetReadDeadline(past)
}

// finish bounds what the server does after the handler: it reads what is owed of
// an HTTP/1.1 body, and writes.
func (e *exchange) finish() {
	if e.hijacked {
		return
	}
	e.begin()
	now := time.Now()
	switch {
	case e.http1 && e.owed.Load():
		if e.givenUp.Load() {
			e.giveUpBody() // whatever deadline the handler has set since
		} else {
			_ = e.control.SetReadDeadline(now.Add(e.timeout))
		}
		_ = e.control.SetWriteDeadline(now.Add(2 * e.timeout)) // the reading comes first
	case e.http1 || e.unsent:
		_ = e.control.SetWriteDeadline(now.Add(e.timeout))
	}
}

// patientBody is a request body whose reads do not wait for ever.
type patientBody struct {
	io.ReadCloser
	e      *exchange
	cancel context.CancelCauseFunc
	read   *time.Timer
}

func (b *patientBody) Read(p []byte) (int, error) {
	if b.read == nil {
		b.read = time.AfterFunc(b.e.timeout, b.stalled)
	} else {
		b.read.Reset(b.e.timeout)
	}
	defer b.read.Stop()
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.e.owed.Store(false)
	case err != nil:
		b.e.givenUp.Store(true) // nothing follows that could be read
	}
	return n, err
}

func (b *patientBody) stalled() {
	if !b.e.answered.Load() {
		b.cancel(ErrStalled)
		b.e.giveUpBody()
	}
}

// Close closes the body. In HTTP/1.1 that reads the rest of it, or waits for a
// Read that does.
func (b *patientBody) Close() error {
	if !b.e.http1 {
		return b.ReadCloser.Close()
	}
	defer time.AfterFunc(b.e.timeout, b.e.giveUpBody).Stop()
	return b.ReadCloser.Close()
}
