// Package proxy sends admitted requests to an upstream and brings its answers
// back, as they come: bodies are streamed both ways and flushed at once, so that
// server-sent events, large uploads and upgraded connections (WebSocket) pass.
//
// Upstreams come in pools, each for the paths below a prefix. The members of a
// pool take turns. One that refuses connections is left out for a while, and its
// request goes to the next: only where no connection was made, so that nothing
// was sent, and the body has not been touched. Nothing else is sent twice, but
// for what net/http repeats where a kept connection turned out to be closed: a
// request without a body by GET, HEAD, OPTIONS or TRACE, or by any method if its
// caller says with Idempotency-Key (or X-Idempotency-Key) that it may be.
//
// A request whose upstream cannot be reached is answered 502, one whose upstream
// takes too long 504. Its tokens stay spent: the limit protects the API from
// attempts, a caller that retries into an outage is what it is for, and whether
// the upstream did the work before the connection broke is not known.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/serve"
)

// The codes of answers that no upstream gave.
const (
	CodeUpstream        = "upstream_unavailable" // 502
	CodeUpstreamTimeout = "upstream_timeout"     // 504
	CodeBodyTimeout     = "body_timeout"         // 408: the caller stalled
	CodeBodyBroken      = "body_broken"          // 400: the caller's body is malformed or ended early
	CodePathAmbiguous   = "path_ambiguous"       // 400: StrictPaths
)

// The reasons why an upstream gave no answer, as metrics label them.
const (
	ReasonConnect  = "connect"  // no connection
	ReasonTimeout  = "timeout"  // a connection, but not in time
	ReasonCanceled = "canceled" // the caller left first
	ReasonClient   = "client"   // the caller's body did not come
	ReasonBroken   = "broken"   // the connection ended before the answer began
)

const (
	bufferSize  = 32 << 10    // bytes copied at once
	logInterval = time.Second // between two lines on upstream errors: each request may fail
)

// Config is where requests go.
type Config struct {
	Pools []Pool // at least the one for all paths
	// Timeout is how long an upstream may take to begin its answer once it has
	// the whole request, and take nothing of what is sent to it. 0: as long as it
	// likes. In HTTP/2 an upstream that only withholds its flow control is not bounded.
	Timeout time.Duration
	// HealthPath is asked of each upstream every few seconds by Run; "" for none.
	HealthPath string
	// StrictPaths refuses paths that servers read in different ways: with an
	// encoded slash or backslash, a ';' or a control character.
	StrictPaths bool
	Trusted     func(remote string) bool // whether the peer at an address is a proxy whose forwarding headers are kept
	Withheld    func(name string) bool   // whether only a trusted proxy may say what a field says: it is sent in no trailer
	Failed      func(reason string)      // called for each request without an answer
	Answers     Answers
	Logger      *slog.Logger
}

// Answers writes the gateway's own answers, with the fields of the limiter's
// decision unless there are none.
type Answers interface {
	Write(w http.ResponseWriter, r *http.Request, p *httplimit.Problem, fields *httplimit.Fields)
}

// Proxy is a handler of requests that were admitted. Safe for concurrent use.
type Proxy struct {
	cfg    Config
	pools  []*pool // longest prefix first
	logs   rate.Sometimes
	buffer buffers
}

type fieldsKey struct{}

// WithFields returns r with the header fields that its response is to carry in
// the place of the upstream's, whoever gives it.
func WithFields(r *http.Request, f *httplimit.Fields) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), fieldsKey{}, f))
}

// New makes a proxy. It sends requests on r.URL's path below the upstream's own.
func New(cfg Config) *Proxy {
	p := &Proxy{cfg: cfg, logs: rate.Sometimes{Interval: logInterval}}
	p.buffer.pool.New = func() any { return new([bufferSize]byte) }
	plain, cleartext2 := newTransport(cfg.Timeout), newTransport(cfg.Timeout)
	cleartext2.Protocols = new(http.Protocols)
	cleartext2.Protocols.SetUnencryptedHTTP2(true)
	for _, of := range byPrefix(cfg.Pools) {
		made := &pool{prefix: of.Prefix}
		for _, u := range of.URLs {
			made.members = append(made.members, newMember(u, plain, cleartext2))
		}
		made.handler = p.handler(made)
		p.pools = append(p.pools, made)
	}
	return p
}

// ServeHTTP sends a request to the pool of its path, which must be clean.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if p.cfg.StrictPaths && ambiguous(path) {
		problem := httplimit.NewProblem(http.StatusBadRequest, CodePathAmbiguous,
			"The path holds an encoded slash or backslash, a ';' or a control character, which servers read in different ways.")
		p.cfg.Answers.Write(w, r, &problem, fieldsOf(r))
		return
	}
	for _, pool := range p.pools {
		if pool.takes(path) {
			pool.handler.ServeHTTP(w, r)
			return
		}
	}
	p.answer(w, r, errors.New("no upstream is configured for all paths")) // refused with the flags
}

// ambiguous reports whether an escaped path holds what a server behind may take
// for the end of a segment, or for no part of it.
func ambiguous(path string) bool {
	if strings.ContainsAny(path, `;\`) {
		return true
	}
	for rest := path; ; {
		at := strings.IndexByte(rest, '%')
		if at < 0 || at+2 >= len(rest) {
			return false
		}
		code := strings.ToUpper(rest[at+1 : at+3])
		if code == "2F" || code == "5C" || code == "3B" || code == "7F" || code[0] < '2' {
			return true
		}
		rest = rest[at+3:]
	}
}

func (p *Proxy) handler(to *pool) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       p.rewrite,
		Transport:     to,
		FlushInterval: -1,
		BufferPool:    &p.buffer,
		ErrorLog:      slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("X-Request-Id") // the gateway's own stands
			if len(r.Trailer) > 0 && r.Request.Method != http.MethodHead {
				r.Header.Del("Content-Length") // HTTP/1.1 has trailers after chunks only
			}
			if fields := fieldsOf(r.Request); fields != nil {
				fields.Set(r.Header)
			}
			return nil
		},
		ErrorHandler: p.answer,
	}
}

// answer answers in the place of an upstream that did not.
func (p *Proxy) answer(w http.ResponseWriter, r *http.Request, err error) {
	reason := reasonOf(r, err)
	p.cfg.Failed(reason)
	if reason != ReasonCanceled && reason != ReasonClient {
		p.logs.Do(func() { p.cfg.Logger.Warn("no answer from the upstream", "reason", reason, "error", err) })
	}
	problem := httplimit.NewProblem(http.StatusBadGateway, CodeUpstream,
		"The API behind this gateway gave no answer. The request counts against its limits all the same.")
	switch {
	case reason == ReasonTimeout:
		problem = httplimit.NewProblem(http.StatusGatewayTimeout, CodeUpstreamTimeout,
			"The API behind this gateway did not answer in time. The request counts against its limits all the same.")
	case reason == ReasonClient && stalled(r):
		problem = httplimit.NewProblem(http.StatusRequestTimeout, CodeBodyTimeout, "The body of the request stopped coming.")
	case reason == ReasonClient:
		problem = httplimit.NewProblem(http.StatusBadRequest, CodeBodyBroken, "The body of the request is malformed or ended early.")
	}
	p.cfg.Answers.Write(w, r, &problem, fieldsOf(r))
}

func fieldsOf(r *http.Request) *httplimit.Fields {
	fields, _ := r.Context().Value(fieldsKey{}).(*httplimit.Fields)
	return fields
}

func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	// A query that this gateway cannot parse is the upstream's to judge.
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	pr.Out.Trailer = p.announced(pr.In.Trailer)
	if pr.Out.Body != nil {
		// The server fills the trailer of pr.In when the body ends.
		pr.Out.Body = &sentBody{ReadCloser: pr.Out.Body, came: pr.In.Trailer, trailer: pr.Out.Trailer}
	}
	if !upgradable(pr.Out.Header.Get("Upgrade")) {
		pr.Out.Header.Del("Connection")
		pr.Out.Header.Del("Upgrade")
	}
	for _, name := range [...]string{"X-Request-Id", "Traceparent", "Tracestate"} {
		if values, ok := pr.In.Header[name]; ok {
			pr.Out.Header[name] = values // whatever the caller's Connection header says of it
		}
	}
	pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
	pr.SetXForwarded()
	if !p.cfg.Trusted(pr.In.RemoteAddr) {
		return
	}
	// The trusted proxy before us knows what its client asked for.
	for _, name := range [...]string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if values := pr.In.Header[name]; len(values) > 0 {
			pr.Out.Header[name] = values
		}
	}
}

// upgradable reports whether a connection may become what an Upgrade header asks
// for. Not HTTP again, nor TLS: requests inside of it would pass unseen.
func upgradable(header string) bool {
	for protocol := range strings.SplitSeq(header, ",") {
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
		switch name {
		case "", "h2", "h2c", "http", "tls":
			return false
		}
	}
	return true
}

func reasonOf(r *http.Request, err error) string {
	var timeout net.Error
	body, _ := r.Body.(*sentBody)
	switch {
	case stalled(r), body != nil && body.failed() != nil && errors.Is(err, body.failed()):
		return ReasonClient
	case r.Context().Err() != nil:
		return ReasonCanceled
	case notDialed(err):
		return ReasonConnect
	case errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	default:
		return ReasonBroken
	}
}

// stalled reports whether the caller's body stopped coming.
func stalled(r *http.Request) bool { return errors.Is(context.Cause(r.Context()), serve.ErrStalled) }

// buffers lends the memory through which bodies are copied.
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

func (b *buffers) Put(buffer []byte) {
	if len(buffer) == bufferSize {
		b.pool.Put((*[bufferSize]byte)(buffer))
	}
}
