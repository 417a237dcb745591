package proxy

import (
	"cmp"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	connectTimeout   = 5 * time.Second  // to an upstream, and as much for its TLS
	idleTimeout      = 90 * time.Second // a kept connection to an upstream without a request
	idleMax          = 512              // kept connections to an upstream; more are closed after use
	answerHeadersMax = 256 << 10        // bytes of an upstream's header; more is a broken answer
	outMin           = time.Second      // how long an upstream that refused a connection is left out; doubled each time
	outMax           = 30 * time.Second
)

// Pool is upstreams that serve the same paths.
type Pool struct {
	// Prefix is the path that the pool serves, with all below it; clean, and
	// without a slash at the end. "" for all paths that no other pool serves.
	Prefix string
	// URLs are the upstreams: http, https, or h2c for HTTP/2 without TLS, as plain
	// gRPC servers speak it.
	URLs []*url.URL
}

// byPrefix returns the pools in the order in which they are asked for a path.
func byPrefix(pools []Pool) []Pool {
	return slices.SortedStableFunc(slices.Values(pools), func(a, b Pool) int { return cmp.Compare(len(b.Prefix), len(a.Prefix)) })
}

// pool is a Pool at work: an http.RoundTripper that chooses the member.
type pool struct {
	prefix  string
	members []*member
	turn    atomic.Uint64
	handler http.Handler
}

// takes reports whether an escaped, clean path is the pool's to serve.
func (p *pool) takes(path string) bool {
	rest, ok := strings.CutPrefix(path, p.prefix)
	return ok && (rest == "" || rest[0] == '/' || p.prefix == "")
}

// RoundTrip sends a request to the member whose turn it is, and to the next one if
// it gets no connection there.
func (p *pool) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := r.Body.(*sentBody)
	var failure error
	for _, m := range p.order(time.Now()) {
		response, err := roundTrip(m.transport, m.direct(r))
		if err == nil {
			m.found()
			return response, nil
		}
		failure = err
		if !notDialed(err) || r.Context().Err() != nil {
			break
		}
		m.lost(time.Now())
		if body != nil && body.begun.Load() {
			break
		}
	}
	return nil, failure
}

// order returns the members to try: one that was lost and may be back, those in
// service from the one whose turn it is, then the others, since an upstream that
// is believed lost is better than none.
func (p *pool) order(now time.Time) []*member {
	if len(p.members) == 1 {
		return p.members
	}
	first := int(p.turn.Add(1) % uint64(len(p.members)))
	var back, in, out []*member
	for i := range p.members {
		m := p.members[(first+i)%len(p.members)]
		switch {
		case m.serves():
			in = append(in, m)
		case len(back) == 0 && m.mayBeBack(now):
			back = append(back, m)
		default:
			out = append(out, m)
		}
	}
	return slices.Concat(back, in, out)
}

// member is one upstream of a pool. Safe for concurrent use.
type member struct {
	url       *url.URL // http or https
	transport http.RoundTripper
	sick      atomic.Bool  // what health checks say
	backAt    atomic.Int64 // ns since 1970: when an upstream that was lost is tried again; 0 if it was not
	losses    atomic.Int32 // connections refused in a row
}

func newMember(u *url.URL, plain, cleartext2 *http.Transport) *member {
	if u.Scheme != "h2c" {
		return &member{url: u, transport: plain}
	}
	to := *u
	to.Scheme = "http"
	return &member{url: &to, transport: cleartext2}
}

// direct returns r as it is sent to this member.
func (m *member) direct(r *http.Request) *http.Request {
	out, to := *r, *r.URL
	out.URL = &to
	pr := httputil.ProxyRequest{Out: &out}
	pr.SetURL(m.url)
	return pr.Out
}

// serves reports whether the member takes its turns.
func (m *member) serves() bool { return !m.sick.Load() && m.backAt.Load() == 0 }

// mayBeBack reports that a member that was lost should be tried again, to one
// request: the others do not wait for what it finds out.
func (m *member) mayBeBack(now time.Time) bool {
	at := m.backAt.Load()
	return !m.sick.Load() && at != 0 && now.UnixNano() >= at && m.backAt.CompareAndSwap(at, now.Add(connectTimeout).UnixNano())
}

func (m *member) found() {
	if m.backAt.Load() != 0 {
		m.losses.Store(0)
		m.backAt.Store(0)
	}
}

func (m *member) lost(now time.Time) {
	const doublings = 5 // reach outMax
	wait := min(outMin<<min(m.losses.Add(1)-1, doublings), outMax)
	m.backAt.Store(now.Add(wait).UnixNano())
}

// notDialed reports an error that came before there was a connection.
func notDialed(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

func newTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            dialer(timeout),
		TLSHandshakeTimeout:    connectTimeout,
		ResponseHeaderTimeout:  timeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idleMax,
		MaxIdleConnsPerHost:    idleMax,
		IdleConnTimeout:        idleTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: answerHeadersMax,
		DisableCompression:     true, // a body passes as it is
	}
}

// sentBody is the body of a request on its way to an upstream. It knows whether
// anything of it was asked for, and how reading it failed. When it ends it fills
// the trailer that is sent from the one that came.
type sentBody struct {
	io.ReadCloser
	came, trailer http.Header

	begun atomic.Bool
	fault atomic.Pointer[error]
}

func (b *sentBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		fill(b.trailer, b.came)
	} else if err != nil {
		b.fault.CompareAndSwap(nil, &err)
	}
	return n, err
}

// Close does nothing: a transport closes what it could not send, and the next
// upstream needs it. The server closes the body when the request is over.
func (b *sentBody) Close() error { return nil }

func (b *sentBody) failed() error {
	if err := b.fault.Load(); err != nil {
		return *err
	}
	return nil
}
