// Package access is the outermost handler of the gateway: it gives each request
// an id, writes the access log, and makes the request's span.
//
//   - The id is X-Request-Id, kept if a trusted proxy sent a usable one, else made
//     here. It goes to the upstream, comes back in the response, and stands in
//     problem bodies, in the log and in the span.
//   - Of admitted requests a sampled share is logged. What was refused (or would
//     have been, in shadow mode) and what failed is always logged, up to
//     refusalsMax a second: a flood of refusals must not become a flood of log.
//   - Who sent it appears as a keyed hash only, and of the path neither query nor
//     more than pathMax bytes: both may hold secrets.
//   - Spans are made only with a Tracer. The caller's trace is continued if a
//     trusted proxy sent it, else linked to.
package access

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/shiplane/limits/libs/limit"
)

const (
	requestIDField = "X-Request-Id"
	requestIDMax   = 128 // bytes of an id that is kept
	pathMax        = 256 // bytes of a path that are logged
	methodMax      = 32  // bytes of a method in the log: callers can invent them
	refusalsMax    = 10  // log lines a second on refusals and failures
	hashBytes      = 8   // of a caller's hash: enough to tell callers apart in a log
)

// Config is what a Handler is made of.
type Config struct {
	Next    http.Handler
	Trusted func(remote string) bool // whether the peer at an address is a trusted proxy
	Logger  *slog.Logger
	Sample  float64      // share of admitted requests that are logged, 0 to 1
	HashKey []byte       // of the callers' hashes: the same key, the same hashes
	Tracer  trace.Tracer // nil: no spans
}

// Handler is the outermost handler. Safe for concurrent use.
type Handler struct {
	Config
	refusals   *rate.Limiter
	suppressed atomic.Int64 // lines that refusals kept back
}

// New makes a handler.
func New(cfg Config) *Handler {
	return &Handler{Config: cfg, refusals: rate.NewLimiter(refusalsMax, refusalsMax)}
}

// ServeHTTP serves a request and notes it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	trusted := h.Trusted(r.RemoteAddr)
	id := requestID(r, trusted)
	r.Header[requestIDField] = []string{id}
	w.Header()[requestIDField] = []string{id}
	v := &visit{ResponseWriter: w, id: id, began: time.Now()}
	ctx := context.WithValue(r.Context(), visitKey{}, v)
	if h.Tracer != nil {
		ctx, v.span = h.startSpan(ctx, r, trusted)
	}
	r = r.WithContext(ctx)
	done := false
	defer func() {
		v.aborted = !done // the handler panicked: http.ErrAbortHandler cuts an answer short
		h.finish(r, v)
	}()
	h.Next.ServeHTTP(v, r)
	done = true
}

// requestID returns the id of a request.
func requestID(r *http.Request, trusted bool) string {
	if given := r.Header[requestIDField]; trusted && len(given) == 1 && usable(given[0]) {
		return given[0]
	}
	return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
}

func usable(id string) bool {
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return id != "" && len(id) <= requestIDMax
}

func (h *Handler) finish(r *http.Request, v *visit) {
	if v.span != nil {
		endSpan(r, v)
	}
	if v.notable() {
		if !h.refusals.Allow() {
			h.suppressed.Add(1)
			return
		}
	} else if h.Sample <= 0 || h.Sample < 1 && rand.Float64() >= h.Sample {
		return
	}
	h.Logger.LogAttrs(r.Context(), slog.LevelInfo, "request", h.attributes(r, v)...)
}

// attributes is the log line of a request.
func (h *Handler) attributes(r *http.Request, v *visit) []slog.Attr {
	path := r.URL.Path
	attrs := []slog.Attr{
		slog.String("request_id", v.id), slog.String("method", r.Method[:min(len(r.Method), methodMax)]), slog.String("path", path[:min(len(path), pathMax)]),
		slog.String("proto", r.Proto), slog.Int("status", v.status), slog.Int64("bytes", v.bytes),
		slog.Float64("ms", float64(time.Since(v.began).Microseconds())/1000),
		slog.String("verdict", v.verdictText()), slog.String("decided_by", v.byText()),
	}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	add("rule", v.rule)
	add("route", v.route)
	add("plan", v.plan)
	add("account_hash", h.hash(v.account))
	add("client_hash", h.hash(v.client))
	if v.shadowed {
		attrs = append(attrs, slog.Bool("shadow", true))
	}
	if v.aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	if v.span != nil {
		add("trace_id", v.span.SpanContext().TraceID().String())
	}
	if n := h.suppressed.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("lines_suppressed_before", n))
	}
	return attrs
}

// hash names a caller without telling who it is: without the key an address could
// be found by trying all.
func (h *Handler) hash(s limit.Subject) string {
	if s == (limit.Subject{}) {
		return ""
	}
	mac := hmac.New(sha256.New, h.HashKey)
	fmt.Fprintf(mac, "%s/%s/%s", s.Domain(), s.Kind(), s.ID())
	return hex.EncodeToString(mac.Sum(nil)[:hashBytes])
}

// visit is one request and its answer, as far as they are noted.
type visit struct {
	http.ResponseWriter
	id      string
	began   time.Time
	span    trace.Span // nil without tracing
	status  int        // 0 if there was no answer
	bytes   int64      // of the body
	aborted bool
	decided
}

// Unwrap lets an http.ResponseController reach the connection.
func (v *visit) Unwrap() http.ResponseWriter { return v.ResponseWriter }

func (v *visit) WriteHeader(status int) {
	if status >= http.StatusOK && v.status == 0 {
		v.status = status
		v.Header()[requestIDField] = []string{v.id} // a 1xx response has cleared the header
	}
	v.ResponseWriter.WriteHeader(status)
}

func (v *visit) Write(p []byte) (int, error) {
	if v.status == 0 {
		v.WriteHeader(http.StatusOK)
	}
	n, err := v.ResponseWriter.Write(p)
	v.bytes += int64(n)
	return n, err
}

// Hijack hands the connection over to another protocol.
func (v *visit) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	v.status = http.StatusSwitchingProtocols
	return http.NewResponseController(v.ResponseWriter).Hijack()
}

// notable reports what is logged whatever the sample says.
func (v *visit) notable() bool {
	return v.refused() || v.status >= http.StatusInternalServerError
}
