package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// What one client can take from a server. Bodies have no time limit: they stream.
const (
	readHeaderTimeout = 10 * time.Second // from the first byte of a request to the end of its headers
	idleTimeout       = 2 * time.Minute  // a kept-alive connection without a request
	headerBytesMax    = 64 << 10         // request line and headers; more is answered 431
)

// server is an http.Server whose upgraded connections end with it.
type server struct {
	http.Server
	cut context.CancelFunc
}

// newServer makes a server of HTTP/1.1 and of HTTP/2 without TLS (prior
// knowledge).
func newServer(h http.Handler, logger *slog.Logger) *server {
	base, cut := context.WithCancel(context.Background())
	s := &server{cut: cut, Server: http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		Protocols:         new(http.Protocols),
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // what clients do wrong
		BaseContext:       func(net.Listener) context.Context { return base },
	}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

func (s *server) serve(l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// drain stops accepting and waits for requests in flight; when ctx ends it cuts
// the connections left and returns ctx's error.
func (s *server) drain(ctx context.Context, l net.Listener) error {
	defer s.cut()
	err := s.Shutdown(ctx)
	if err != nil {
		_ = s.Close()
	}
	_ = l.Close() // for a server that never ran, and so knows no listener
	return err
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
