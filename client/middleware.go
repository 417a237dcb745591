package client

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/httplimit"
	"github.com/shiplane/limits/libs/limit"
)

// MiddlewareConfig is what a middleware is made of.
type MiddlewareConfig struct {
	Client *Client
	Domain string // as in "public-api"
	// Entries names the rules that a request meets, and who is counted; none: the
	// request is not limited. It is called for each request, from many goroutines.
	Entries func(*http.Request) []Entry
	// Denied is the body of a 429 in words of one's own; nil: problem+json.
	Denied *httplimit.Body
	// Logger is told, once a second at most, that checkers cannot decide such
	// requests (Client.Check). nil: nobody is.
	Logger *slog.Logger
}

// Middleware serves requests that a checker allows, with their limits and what is
// left of them in the header fields RateLimit-Policy and RateLimit, and answers
// others with 429 or, where a limit could not be checked that must be, 503, with
// Retry-After and a problem body.
func Middleware(cfg MiddlewareConfig) func(http.Handler) http.Handler {
	guard := newGuard(cfg.Client, cfg.Domain, cfg.Logger)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entries := cfg.Entries(r)
			if len(entries) == 0 {
				next.ServeHTTP(w, r)
				return
			}
			decision := guard.check(r.Context(), entries)
			fields := fieldsOf(&decision)
			fields.Set(w.Header())
			if decision.Verdict == limit.Allowed {
				next.ServeHTTP(w, r)
				return
			}
			problem := refusal(&decision)
			problem.Answer(w, r, cfg.Denied)
		})
	}
}

// guard is what the middleware and the interceptor have in common.
type guard struct {
	client *Client
	domain string
	log    *slog.Logger
	start  time.Time
	logged atomic.Int64 // the second in which a fault was last logged
}

func newGuard(client *Client, domain string, log *slog.Logger) *guard {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &guard{client: client, domain: domain, log: log, start: time.Now()}
}

func (g *guard) check(ctx context.Context, entries []Entry) limit.Decision {
	decision, err := g.client.Check(ctx, g.domain, entries...)
	if err != nil && ctx.Err() == nil {
		second := int64(time.Since(g.start)/time.Second) + 1
		if last := g.logged.Load(); last != second && g.logged.CompareAndSwap(last, second) {
			g.log.Error("the checker cannot decide requests: fallbacks do", "domain", g.domain, "err", err)
		}
	}
	return shown(&decision)
}
