package client

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Bounds and defaults of a Transport.
const (
	attemptsDefault = 4           // the first included
	waitDefault     = time.Minute // before a request that would wait longer fails at once
	retryShare      = 0.2         // retries earned by each request
	retriesSaved    = 10.0        // retries in hand at most, so that an outage is not multiplied
	drainMax        = 64 << 10    // bytes of a refusal's body that are read so that its connection is kept
	keysMax         = 1024        // limits known at once; beyond, idle ones are forgotten
)

// Transport is an http.RoundTripper that obeys rate limits: it sends a request
// when RateLimit and Retry-After of the answers before say that it can pass, and
// sends a refused one again when its time has come.
//
// A request waits, while its context lasts and at most MaxWait, for
//
//   - Retry-After of a 429 or 503, and a random time beyond it, so that callers
//     who were told the same time do not come all at once; the more often a
//     caller is refused in a row, the wider that spread;
//   - the next token of a policy whose last is gone (RateLimit with r=0): at the
//     pace that its RateLimit-Policy tells, or until the time in RateLimit, when
//     all are there again.
//
// Requests of one key that wait are sent in the order in which they came, and
// while all are refused, one at a time.
//
// A 429 says that nothing was done, so that every request may be sent again if
// its body can be had once more (http.Request.GetBody); after a 503 only those
// whose method is idempotent. Retries are limited to a fifth of the requests.
//
// The zero Transport is ready. Safe for concurrent use.
type Transport struct {
	Base     http.RoundTripper // nil: http.DefaultTransport
	MaxWait  time.Duration     // 0: a minute
	Attempts int               // of one request, the first included; 0: 4

	// Key names whose limit a request counts under: those of one key wait for
	// each other. nil: the URL's host and the headers X-Api-Key and Authorization.
	Key func(*http.Request) string

	mu      sync.Mutex
	pacers  map[string]*pacer
	retries float64 // in hand
}

// WaitError is the error of a request that was not sent: it would have waited
// longer than MaxWait.
type WaitError struct{ Wait time.Duration }

func (e *WaitError) Error() string {
	return fmt.Sprintf("the rate limit is used up: the next request can pass in %v", e.Wait.Round(time.Second))
}

// RoundTrip implements http.RoundTripper. An answer that is still a refusal is
// returned as it came: its attempts, its time or the budget of retries were used
// up. The error may be a *WaitError.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	p := t.pacer(r)
	defer t.release(p)
	for attempt := 1; ; attempt++ {
		sent, err := p.admit(r.Context(), cmp.Or(t.MaxWait, waitDefault))
		if err != nil {
			closeBody(r)
			return nil, err
		}
		answer, err := cmp.Or[http.RoundTripper](t.Base, http.DefaultTransport).RoundTrip(r)
		if err != nil {
			p.failed()
			return nil, err
		}
		wait := p.learn(answer.StatusCode, answer.Header, sent, time.Now(), rand.Float64()) //nolint:gosec // no secret
		if attempt >= cmp.Or(t.Attempts, attemptsDefault) || !repeatable(r, answer) || !t.affords(r, wait) {
			return answer, nil
		}
		if r, err = again(r); err != nil {
			return answer, nil // the refusal is the answer
		}
		discard(answer)
	}
}

// affords reports whether a request may wait and be sent again, and pays for it.
func (t *Transport) affords(r *http.Request, wait time.Duration) bool {
	if end, ok := r.Context().Deadline(); ok && time.Until(end) < wait || wait > cmp.Or(t.MaxWait, waitDefault) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retries < 1 {
		return false
	}
	t.retries--
	return true
}

// repeatable reports whether an answer refuses a request that may be sent again.
func repeatable(r *http.Request, answer *http.Response) bool {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusServiceUnavailable:
		return r.Method == "" || r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions ||
			r.Method == http.MethodPut || r.Method == http.MethodDelete
	}
	return false
}

// again returns a copy of a request with its body anew.
func again(r *http.Request) (*http.Request, error) {
	next := r.Clone(r.Context())
	if r.GetBody == nil {
		return next, nil
	}
	body, err := r.GetBody()
	next.Body = body
	return next, err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // RoundTrip must, and nothing was read
	}
}

func discard(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, drainMax)
	_ = answer.Body.Close()
}

// pacer returns the pacer of a request's limit, and lets the request earn its
// part of a retry.
func (t *Transport) pacer(r *http.Request) *pacer {
	key := r.URL.Host + "\n" + r.Header.Get("X-Api-Key") + "\n" + r.Header.Get("Authorization")
	if t.Key != nil {
		key = t.Key(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pacers == nil {
		t.pacers, t.retries = map[string]*pacer{}, retriesSaved
	}
	t.retries = min(t.retries+retryShare, retriesSaved)
	p := t.pacers[key]
	if p == nil {
		if len(t.pacers) >= keysMax {
			t.forget()
		}
		p = newPacer()
		t.pacers[key] = p
	}
	p.users++
	return p
}

func (t *Transport) release(p *pacer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.users--
}

// forget drops what no request uses; what is learned anew costs a refusal at most.
func (t *Transport) forget() {
	for key, p := range t.pacers {
		if p.users == 0 {
			delete(t.pacers, key)
		}
	}
}
