package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store/breaker"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// Bounds and defaults of a Client.
const (
	timeoutDefault = 12 * time.Millisecond // twice the checker's wait for its store, and the way there
	connsMax       = 256                   // connections to one checker: each carries one call at a time
	connsIdle      = 64                    // of them kept while idle
	connIdleMax    = 90 * time.Second      // and for so long
	answerMax      = 256 << 10             // bytes of an answer: 16 entries with keys of 4 KiB, in an error's details as base64
)

// errOpen says that all breakers are open.
var errOpen = errors.New("no checker is asked for now: none has answered")

// Config is what a Client is made of.
type Config struct {
	// URLs are those of the checkers, as http://checker:8081; they are asked by
	// turns. At least one.
	URLs []string
	// Token is sent as a bearer token; "" for none.
	Token string
	// Timeout bounds a Check. 0: 12 ms.
	Timeout time.Duration

	// Fallback decides while no checker answers; the zero Fallback admits. Rules
	// holds those of single rules, by id.
	Fallback Fallback
	Rules    map[string]Fallback

	// TLS is for URLs of https. HTTPClient takes the place of the client's own
	// connections, TLS included; nil: HTTP/1.1, kept alive.
	TLS        *tls.Config
	HTTPClient connect.HTTPClient

	// Logger is told of checkers that no longer answer, and that do again. nil:
	// nobody is.
	Logger *slog.Logger
}

// Client asks checkers whether requests may pass, and decides by itself while none
// answers. Safe for concurrent use.
type Client struct {
	timeout  time.Duration
	token    string
	checkers []*checker
	fallback *fallbacks
	next     atomic.Uint32 // whose turn it is
	start    time.Time
	idle     func() // closes idle connections
}

// checker is one checker.
type checker struct {
	checkv1.CheckServiceClient
	url     string
	breaker breaker.Breaker
}

// New makes a client. It connects to nobody. The error names what is wrong with
// cfg.
func New(cfg Config) (*Client, error) {
	fallback, err := newFallbacks(cfg.Fallback, cfg.Rules)
	if err != nil {
		return nil, err
	}
	if len(cfg.URLs) == 0 {
		return nil, errors.New("client: URLs: want at least one")
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("client: Timeout %v: want 0 or more", cfg.Timeout)
	}
	c := &Client{
		timeout: cmp.Or(cfg.Timeout, timeoutDefault), token: cfg.Token, fallback: fallback, start: time.Now(), idle: func() {},
	}
	conns := cfg.HTTPClient
	if conns == nil {
		transport := newTransport(cfg.TLS)
		conns, c.idle = &http.Client{Transport: transport}, transport.CloseIdleConnections
	}
	log := cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	for _, text := range cfg.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, fmt.Errorf("client: URLs: want one as http://checker:8081, without a password: %.200q", redacted(u))
		}
		c.checkers = append(c.checkers, newChecker(conns, text, log))
	}
	return c, nil
}

// redacted is a URL without what may be a secret: nothing of one that cannot be read.
func redacted(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Redacted()
}

// newTransport keeps connections of HTTP/1.1, which costs a call half of what
// HTTP/2 does.
func newTransport(config *tls.Config) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, Protocols: &protocols,
		MaxConnsPerHost: connsMax, MaxIdleConnsPerHost: connsIdle, IdleConnTimeout: connIdleMax, DisableCompression: true,
	}
}

func newChecker(conns connect.HTTPClient, address string, log *slog.Logger) *checker {
	k := &checker{url: address, CheckServiceClient: checkv1.NewCheckServiceClient(conns, address,
		connect.WithReadMaxBytes(answerMax), connect.WithAcceptCompression("gzip", nil, nil))} // a few hundred bytes in one region
	k.breaker.Random = rand.Float64
	k.breaker.Changed = func(from, to breaker.State) {
		switch {
		case from == breaker.Closed:
			log.Warn("a checker does not answer: fallbacks decide", "checker", address)
		case to == breaker.Closed:
			log.Info("a checker answers again", "checker", address)
		}
	}
	return k
}

// Close closes idle connections. Nobody calls Check after it.
func (c *Client) Close() { c.idle() }

// Entry is one rule that a request meets.
type Entry struct {
	Rule string // the rule's id
	Key  string // who is counted: an account, an address or a user name, 1 to 4,096 bytes
	Cost int64  // tokens, 1 to 1,000,000; 0: 1
}

// DecidedBy is who decided.
type DecidedBy uint8

// Who decides.
const (
	ByChecker  DecidedBy = iota + 1 // a checker; Decision.Answer says more
	ByFallback                      // no checker answered: the fallbacks of Config
)

// String returns checker or fallback.
func (d DecidedBy) String() string {
	switch d {
	case ByChecker:
		return "checker"
	case ByFallback:
		return "fallback"
	default:
		return fmt.Sprintf("DecidedBy(%d)", uint8(d))
	}
}

// Decision is the answer to a Check.
type Decision struct {
	Allowed bool
	// Unavailable says of a refusal that no limit was passed: the counter of a
	// rule that fails closed, or the checker, could not be asked (503, not 429).
	Unavailable bool
	DecidedBy   DecidedBy
	Refused     string // the rule that refused first; "" if none
	// RetryAfter is the time after which the request could pass; 0 where none is
	// known, or no waiting helps.
	RetryAfter time.Duration
	// Answer is the checker's, with what is left of each rule; nil ByFallback.
	Answer *checkv1.CheckResponse
	// Cause is why no checker answered; nil ByChecker.
	Cause error
}

// Check decides a request, and charges all its entries if it is allowed, none if
// not. It takes no longer than Config.Timeout. Where no checker has answered by
// then, fallbacks decide; the charge may have been made nevertheless, so that the
// request is not sent to another.
//
// An error comes beside a decision of the fallbacks when a checker answered that
// it cannot decide such a request (an unknown rule, a bad token), which a
// deployment has to mend; and with no decision when ctx ends first.
func (c *Client) Check(ctx context.Context, domain string, entries ...Entry) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, context.Cause(ctx)
	}
	due := time.Now().Add(c.timeout)
	answer, err := c.ask(ctx, due, newRequest(domain, entries))
	if err == nil {
		return newDecision(answer), nil
	}
	if why := left(ctx, due, err); why != nil {
		return Decision{}, why
	}
	d := c.fallback.decide(time.Since(c.start), entries)
	d.Cause = err
	if callersFault(err) {
		return d, err
	}
	return d, nil
}

func newRequest(domain string, entries []Entry) *checkv1.CheckRequest {
	q := &checkv1.CheckRequest{Domain: domain, Entries: make([]*checkv1.Entry, len(entries))}
	for i := range entries {
		q.Entries[i] = &checkv1.Entry{Rule: entries[i].Rule, Key: entries[i].Key}
		if entries[i].Cost != 0 {
			q.Entries[i].Cost = &entries[i].Cost
		}
	}
	return q
}

// ask sends a request to the checker whose turn it is, and to the next one where
// it was not sent: the breaker is open, or nobody is at the address.
func (c *Client) ask(caller context.Context, due time.Time, q *checkv1.CheckRequest) (*checkv1.CheckResponse, error) {
	ctx, cancel := context.WithDeadline(caller, due)
	defer cancel()
	ctx, call := connect.NewClientContext(ctx)
	if c.token != "" {
		call.RequestHeader().Set("Authorization", "Bearer "+c.token)
	}
	turn := int(c.next.Add(1))
	err := errOpen
	for i := range c.checkers {
		k := c.checkers[(turn+i)%len(c.checkers)]
		sent := time.Since(c.start)
		ok, probe := k.breaker.Allow(sent)
		if !ok {
			continue
		}
		var answer *checkv1.CheckResponse
		answer, err = k.Check(ctx, q)
		if found := decided(err); found != nil {
			answer, err = found, nil
		}
		end := outcome(err)
		if err != nil && left(caller, due, err) != nil {
			end = breaker.Unjudged
		}
		k.breaker.Done(time.Since(c.start), sent, sent+c.timeout, end, probe)
		if err == nil || !unsent(err) || ctx.Err() != nil {
			return answer, err
		}
	}
	return nil, err
}

// newDecision says what a checker decided.
func newDecision(a *checkv1.CheckResponse) Decision {
	d := Decision{
		Allowed: a.GetVerdict() == checkv1.Verdict_VERDICT_ALLOWED, Unavailable: a.GetVerdict() == checkv1.Verdict_VERDICT_UNAVAILABLE,
		DecidedBy: ByChecker, RetryAfter: a.GetRetryAfter().AsDuration(), Answer: a,
	}
	if i := int(a.GetRefused()); a.Refused != nil && i >= 0 && i < len(a.GetEntries()) {
		d.Refused = a.GetEntries()[i].GetRule()
	}
	return d
}
