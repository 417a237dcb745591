package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

// What one client can take from a server. Bodies have no time limit: they stream,
// as long as they make progress.
const (
	readHeaderTimeout = 10 * time.Second // from the first byte of a request to the end of its headers, and for the handshake of TLS
	idleTimeout       = 2 * time.Minute  // a kept-alive connection without a request
	headerBytesMax    = 64 << 10         // request line and headers; more is answered 431
	streamsMax        = 250              // requests at once on a connection of HTTP/2
	pingAfter         = 30 * time.Second // a connection of HTTP/2 that is silent for so long is asked whether it lives
	clientTimeout     = time.Minute      // Endpoint.ClientTimeout by default
	busyPoll          = 5 * time.Millisecond

	// From the last accepted connection to http.Server.Shutdown, which drops
	// without an answer the requests that it finds half read. What is accepted
	// last is read by then, unless its client is slow.
	lastCall = 100 * time.Millisecond
)

// Endpoint is what a process serves at one address.
type Endpoint struct {
	Flag    string // the option that the address came from
	Address string // HOST:PORT; port 0 asks for a free one
	Handler http.Handler
	// TLS makes it HTTPS (HTTP/1.1 and HTTP/2 by ALPN), as Certificate.TLS does.
	// Nil: HTTP/1.1, and HTTP/2 with prior knowledge.
	TLS *tls.Config
	// ClientTimeout is how long a client may stall: send nothing of a body that
	// is waited for, or take nothing of an answer. 0: one minute.
	ClientTimeout time.Duration
}

// server is an http.Server whose upgraded connections end with it.
type server struct {
	http.Server
	requests *patient
	cut      context.CancelFunc
	serving  atomic.Bool // the server runs, and does not drain
}

func newServer(e Endpoint, draining func() bool, logger *slog.Logger) *server {
	base, cut := context.WithCancel(context.Background())
	timeout := cmp.Or(e.ClientTimeout, clientTimeout)
	requests := &patient{next: e.Handler, timeout: timeout, draining: draining}
	s := &server{cut: cut, requests: requests, Server: http.Server{
		Handler:           requests,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		TLSConfig:         e.TLS,
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: streamsMax, SendPingTimeout: pingAfter, WriteByteTimeout: timeout},
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // what clients do wrong
		BaseContext:       func(net.Listener) context.Context { return base },
	}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(e.TLS != nil)
	s.Protocols.SetUnencryptedHTTP2(e.TLS == nil)
	return s
}

func (s *server) serve(l net.Listener) error {
	serve := s.Serve
	if s.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	s.serving.Store(true)
	err := serve(l)
	if drains := !s.serving.Load(); drains || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain stops accepting and waits for requests in flight; when ctx ends it cuts
// the connections left. It returns when no handler runs any more, or with an error
// if connections had to be cut.
func (s *server) drain(ctx context.Context, l net.Listener) error {
	served := s.serving.Swap(false)
	_ = l.Close()
	if served {
		s.lastCall(ctx)
	}
	err := s.Shutdown(ctx)
	if err != nil {
		_ = s.Close()
	}
	s.cut()
	return errors.Join(err, s.waitIdle())
}

func (s *server) lastCall(ctx context.Context) {
	timer := time.NewTimer(lastCall)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// waitIdle waits for the handlers that were cut: what is pushed earlier must not
// end under them.
func (s *server) waitIdle() error {
	tick := time.NewTicker(busyPoll)
	defer tick.Stop()
	for end := time.Now().Add(closeTimeout); s.requests.busy.Load() > 0; <-tick.C {
		if time.Now().After(end) {
			return fmt.Errorf("%d requests run on after their connections were cut", s.requests.busy.Load())
		}
	}
	return nil
}

// listen binds a TCP address.
func listen(flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, Usage(fmt.Errorf("%s %s: the address is in use by another process", flag, address))
	case err != nil:
		return nil, Usage(fmt.Errorf("%s %q: want HOST:PORT that this machine can listen on: %w", flag, address, err))
	}
	return l, nil
}
