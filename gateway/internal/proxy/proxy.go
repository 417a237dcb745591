// Package proxy sends admitted requests to the upstream and brings its answers
// back, as they come: bodies are streamed both ways and flushed at once, so that
// server-sent events, large uploads and upgraded connections (WebSocket) pass.
//
// A request whose upstream cannot be reached is answered 502. Its tokens stay
// spent: the limit protects the API from attempts, a caller that retries into an
// outage is what it is for, and whether the upstream did the work before the
// connection broke is not known.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/libs/httplimit"
)

// CodeUpstream is the code of a 502.
const CodeUpstream = "upstream_unavailable"

// The reasons why an upstream gave no answer, as metrics label them.
const (
	ReasonConnect  = "connect"  // no connection
	ReasonTimeout  = "timeout"  // a connection, but not in time
	ReasonCanceled = "canceled" // the caller left first
	ReasonBroken   = "broken"   // the connection ended before the answer began
)

const (
	connectTimeout = 5 * time.Second  // to the upstream, and as much for its TLS
	idleTimeout    = 90 * time.Second // a kept connection to the upstream without a request
	idleMax        = 512              // kept connections to the upstream; more are closed after use
	bufferSize     = 32 << 10         // bytes copied at once
	logInterval    = time.Second      // between two lines on upstream errors: each request may fail
)

// Config is where requests go.
type Config struct {
	Upstream *url.URL
	Clients  *identity.Identifier // tells which peers' forwarding headers are kept
	Failed   func(reason string)  // called for each request without an answer
	Logger   *slog.Logger
}

type fieldsKey struct{}

// WithFields returns r with the header fields that its response is to carry in
// the place of the upstream's, whoever gives it.
func WithFields(r *http.Request, f *httplimit.Fields) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), fieldsKey{}, f))
}

// New makes a handler that sends requests to the upstream. It sends them on
// r.URL's path below the upstream's own.
func New(cfg Config) http.Handler {
	logs := &rate.Sometimes{Interval: logInterval}
	return &httputil.ReverseProxy{
		Rewrite:        func(p *httputil.ProxyRequest) { rewrite(p, cfg) },
		Transport:      newTransport(),
		FlushInterval:  -1,
		BufferPool:     newBuffers(),
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
		ModifyResponse: func(r *http.Response) error { setFields(r.Request, r.Header); return nil },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			reason := reasonOf(r, err)
			cfg.Failed(reason)
			if reason != ReasonCanceled {
				logs.Do(func() { cfg.Logger.Warn("no answer from the upstream", "reason", reason, "error", err) })
			}
			setFields(r, w.Header())
			p := httplimit.NewProblem(http.StatusBadGateway, CodeUpstream,
				"The API behind this gateway gave no answer. The request counts against its limits all the same.")
			p.Write(w)
		},
	}
}

func setFields(r *http.Request, h http.Header) {
	if f, ok := r.Context().Value(fieldsKey{}).(*httplimit.Fields); ok {
		f.Set(h)
	}
}

func rewrite(p *httputil.ProxyRequest, cfg Config) {
	p.SetURL(cfg.Upstream)
	// A query that this gateway cannot parse is the upstream's to judge.
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	if cfg.Upstream.RawQuery != "" {
		p.Out.URL.RawQuery = cfg.Upstream.RawQuery + "&" + p.In.URL.RawQuery
	}
	p.Out.Header["X-Forwarded-For"] = p.In.Header["X-Forwarded-For"]
	p.SetXForwarded()
	if !cfg.Clients.Trusts(cfg.Clients.Address(p.In.RemoteAddr, nil)) {
		return
	}
	// The trusted proxy before us knows what its client asked for.
	for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if values := p.In.Header[name]; len(values) > 0 {
			p.Out.Header[name] = values
		}
	}
}

func newTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          idleMax,
		MaxIdleConnsPerHost:   idleMax,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // a body passes as it is
	}
}

func reasonOf(r *http.Request, err error) string {
	var dial *net.OpError
	var timeout net.Error
	switch {
	case r.Context().Err() != nil:
		return ReasonCanceled
	case errors.As(err, &dial) && dial.Op == "dial":
		return ReasonConnect
	case errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	default:
		return ReasonBroken
	}
}

// buffers lends the memory through which bodies are copied.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(buffer))
	}
}
