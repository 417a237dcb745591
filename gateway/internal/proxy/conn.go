package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// dialer makes connections to upstreams whose writes fail once the upstream has
// taken nothing for timeout; 0: it may take as long as it likes.
func dialer(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	to := net.Dialer{Timeout: connectTimeout}
	if timeout <= 0 {
		return to.DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := to.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &sendingConn{Conn: conn, timeout: timeout}, nil
	}
}

// sendingConn is a connection that bounds each Write, of some 32 KiB at most.
type sendingConn struct {
	net.Conn
	timeout   time.Duration
	unbounded atomic.Bool // the connection became another protocol's
}

func (c *sendingConn) Write(p []byte) (int, error) {
	if c.unbounded.Load() {
		return c.Conn.Write(p)
	}
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	_ = c.SetWriteDeadline(time.Time{})
	return n, err
}

// roundTrip sends r by transport. The connection of an answer of 101 is bounded no
// more: the protocol that follows may pause.
func roundTrip(transport http.RoundTripper, r *http.Request) (*http.Response, error) {
	if r.Header.Get("Upgrade") == "" {
		return transport.RoundTrip(r)
	}
	var got net.Conn
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { got = info.Conn }}
	response, err := transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		if tls, ok := got.(interface{ NetConn() net.Conn }); ok {
			got = tls.NetConn()
		}
		if sending, ok := got.(*sendingConn); ok {
			sending.unbounded.Store(true)
		}
	}
	return response, err
}
