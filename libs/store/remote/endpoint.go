package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/store/lanes"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

const (
	batchMax = 256 // asks of an Acquire: what a checker takes
	// connectionsMax bounds the connections to a checker. Lanes use a few; the others
	// are those that late answers are awaited on.
	connectionsMax = 16
	// wireTimeout is how long a late answer keeps its connection: to cut it at the
	// callers' timeout would strike a slow checker with reconnections too.
	wireTimeout = time.Second
	idleTimeout = time.Minute // of a connection: below the checker's
	answerMax   = 1 << 20     // bytes

	// leavingFor is how long a checker that drains is left to itself.
	leavingFor = time.Second
	// probePoll is the time between looks whether a breaker lets a probe through.
	probePoll = 50 * time.Millisecond

	// meetFor is how long a checker that does not serve yet is looked at again, every
	// meetPoll, when this process starts: so long it waits with being ready.
	meetFor  = time.Second
	meetPoll = 100 * time.Millisecond

	healthProcedure = "/grpc.health.v1.Health/Check"
)

// endpoint is a checker, or a balancer before several. Safe for concurrent use.
type endpoint struct {
	name      string
	transport *http.Transport
	checks    checkv1.CheckServiceClient
	health    *connect.Client[healthv1.HealthCheckRequest, healthv1.HealthCheckResponse]
	token     func() string
	timeout   time.Duration
	since     func() time.Duration // the store's start
	run       context.Context      // ends with the store

	breaker     breaker.Breaker
	opened      chan struct{} // the breaker has
	lanes       lanes.Lanes[*call]
	inFlight    atomic.Int64 // asks
	connections atomic.Int64 // calls on their way, of a connection each
	hurried     atomic.Bool  // since the breaker has opened
	leaving     atomic.Int64 // until when, by since, it is left to itself
}

func newEndpoint(run context.Context, cfg *Config, address string, since func() time.Duration, changed func(name string, from, to breaker.State)) *endpoint {
	address, name := base(address)
	e := &endpoint{name: name, token: cfg.Token, timeout: cfg.Timeout, since: since, run: run, opened: make(chan struct{}, 1)}
	e.breaker.Random = rand.Float64
	e.breaker.Changed = func(from, to breaker.State) {
		if from == breaker.Closed {
			select {
			case e.opened <- struct{}{}:
			default:
			}
		}
		changed(name, from, to)
	}
	e.lanes = lanes.New(batchMax, e.send)
	e.transport = newTransport(cfg.TLS)
	client := &http.Client{Transport: e, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	options := []connect.ClientOption{
		connect.WithReadMaxBytes(answerMax),
		connect.WithAcceptCompression("gzip", nil, nil), // it costs more than the bytes
	}
	e.checks = checkv1.NewCheckServiceClient(client, address, options...)
	e.health = connect.NewClient[healthv1.HealthCheckRequest, healthv1.HealthCheckResponse](client, address+healthProcedure, options...)
	return e
}

// newTransport makes connections of HTTP/1.1, and tells those that could not be made
// from those that broke.
func newTransport(secure *tls.Config) *http.Transport {
	dialer := &net.Dialer{Timeout: wireTimeout}
	secure = secure.Clone()
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	secure.NextProtos = []string{"http/1.1"}
	handshake := &tls.Dialer{NetDialer: dialer, Config: secure}
	made := func(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errDial, err)
			}
			return conn, nil
		}
	}
	return &http.Transport{
		DialContext: made(dialer.DialContext), DialTLSContext: made(handshake.DialContext),
		MaxIdleConnsPerHost: connectionsMax, IdleConnTimeout: idleTimeout, DisableCompression: true,
	}
}

// RoundTrip implements http.RoundTripper for the clients: it notes a checker that
// closes its connections, for it drains.
func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	if token := e.token(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := e.transport.RoundTrip(r)
	if err == nil && response.Close {
		e.leaves()
	}
	return response, err
}

// leaves notes that the checker drains: it soon closes what is idle.
func (e *endpoint) leaves() {
	e.leaving.Store(int64(e.since() + leavingFor))
	e.transport.CloseIdleConnections()
}

// takes reports whether asks may go to the checker, one that drains at this time or one
// that does not.
func (e *endpoint) takes(now time.Duration, draining bool) bool {
	return draining == (int64(now) < e.leaving.Load()) && e.breaker.Closed()
}

// hurry lets the checker be looked at often for a while, for it has refused a
// connection: it may be restarting, or the balancer before it may know of it soon.
// Once for each time that its breaker opens.
func (e *endpoint) hurry(now time.Duration) {
	if e.hurried.CompareAndSwap(false, true) {
		e.breaker.Hurry(now)
	}
}

// send sends asks together, and returns when they are answered.
func (e *endpoint) send(calls []*call) {
	asks, now := make([]*checkv1.Ask, 0, len(calls)), time.Now()
	sent := calls[:0]
	for _, c := range calls {
		switch {
		case now.After(c.deadline):
			e.answer(c, answer{err: context.DeadlineExceeded})
		case !e.breaker.Closed():
			e.answer(c, answer{err: errOpen})
		default:
			asks, sent = append(asks, c.ask), append(sent, c)
		}
	}
	if len(sent) > 0 {
		e.acquire(asks, sent)
	}
}

// acquire makes one call. Where the checker refuses it as malformed nothing was
// executed: the asks that are not go by themselves, so that one of them fails alone.
func (e *endpoint) acquire(asks []*checkv1.Ask, calls []*call) {
	results, err := e.call(asks)
	if classify(err) == classInvalid && len(calls) > 1 {
		half := len(calls) / 2
		e.acquire(asks[:half], calls[:half])
		e.acquire(asks[half:], calls[half:])
		return
	}
	if err == nil && len(results) != len(calls) {
		err = fmt.Errorf("%w: %d results, want %d", errAnswer, len(results), len(calls))
	}
	for i, c := range calls {
		a := answer{err: err}
		if err == nil {
			a.result = results[i]
		}
		e.answer(c, a)
	}
}

// call makes a call, if the checker does not owe answers to too many. A lane is given
// another call when the one before is overdue, so that a checker which owes that many has
// not answered for a while, whatever this process has missed by its own stalls.
func (e *endpoint) call(asks []*checkv1.Ask) ([]*checkv1.AskResult, error) {
	defer e.connections.Add(-1)
	if e.connections.Add(1) > connectionsMax {
		return nil, errOwing
	}
	ctx, cancel := context.WithTimeout(e.run, wireTimeout)
	defer cancel()
	response, err := e.checks.Acquire(ctx, &checkv1.AcquireRequest{Asks: asks})
	return response.GetResults(), err
}

// answer tells the caller, who may have left.
func (e *endpoint) answer(c *call, a answer) {
	e.inFlight.Add(-1)
	c.Answer(a)
}

// watch follows the checker until the store is closed: it makes the first connection,
// and finds out whether a checker whose breaker has opened is back. first is told how
// it was found, reached of each good answer.
func (e *endpoint) watch(first func(name string, err error), reached func()) {
	err := e.meet()
	if e.run.Err() == nil {
		first(e.name, err)
	}
	if err == nil {
		reached()
	}
	for {
		select {
		case <-e.opened:
		case <-e.run.Done():
			return
		}
		for !e.breaker.Closed() {
			sent := e.since()
			if ok, probe := e.breaker.Allow(sent); ok && probe {
				end := breaker.Replied
				if e.serves(e.timeout) != nil {
					end = breaker.Unreachable
				}
				e.breaker.Done(e.since(), sent, sent+e.timeout, end, true)
				continue
			}
			if !e.pause(probePoll) {
				return
			}
		}
		e.hurried.Store(false)
		reached()
	}
}

// meet waits until the checker serves, for meetFor at most: both may be starting. An
// answer may be late, for it has to await the connection.
func (e *endpoint) meet() error {
	for end := e.since() + meetFor; ; {
		err := e.serves(wireTimeout)
		if err == nil || e.since() >= end || !e.breaker.Closed() || !e.pause(meetPoll) {
			return err
		}
	}
}

// pause waits, and reports whether the store is still open.
func (e *endpoint) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-e.run.Done():
		return false
	}
}

// errHealth says that a checker answers and does not serve.
var errHealth = errors.New("it does not serve")

// serves asks the checker's health. Nil: it serves, and answers in time.
func (e *endpoint) serves(within time.Duration) error {
	ctx, cancel := context.WithTimeout(e.run, wireTimeout)
	defer cancel()
	begin := time.Now()
	response, err := e.health.CallUnary(ctx, connect.NewRequest(&healthv1.HealthCheckRequest{}))
	switch {
	case err != nil:
		return err
	case response.Msg.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return errHealth
	case time.Since(begin) > within:
		return context.DeadlineExceeded
	}
	return nil
}
