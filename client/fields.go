package client

import (
	"cmp"
	"math"
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// policiesMax bounds the policies of one answer that are looked at.
const policiesMax = 32

// policy is one policy: a bucket that refills at its rate, or a window, all of
// which is there again when it ends.
type policy struct {
	quota  float64   // requests
	window float64   // seconds
	bucket bool      // nothing that was told of it has spoken against a bucket
	level  float64   // requests that may be sent
	at     time.Time // when that was so
	told   time.Time // when an answer told of it
	full   time.Time // when a window ends
}

func (l *policy) refill(now time.Time) {
	if l.bucket {
		l.level = min(l.quota, l.level+max(0, now.Sub(l.at).Seconds())*l.quota/l.window)
	} else if !now.Before(l.full) {
		l.level, l.full = l.quota, now.Add(seconds(l.window)) // the next one's end, should nobody tell
	}
	l.at = now
}

// wait is the time until a request passes that has so many before it.
func (l *policy) wait(now time.Time, ahead int) time.Duration {
	lack := 1 + float64(ahead) - l.level
	switch {
	case lack <= 0:
		return 0
	case l.bucket:
		return seconds(lack*l.window/l.quota) + slack
	default:
		windows := max(0, math.Ceil(lack/l.quota)-1) // after the present one
		return l.full.Sub(now) + seconds(windows*l.window)
	}
}

// read takes RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers)
// of an answer to a request sent then: what is left of the policies, and what they
// allow, if it is told. Policies that an answer does not name are forgotten, fields
// that cannot be read change nothing.
func (p *pacer) read(h http.Header, sent, now time.Time, refused bool) {
	state, allowed := items(h, "RateLimit"), items(h, "RateLimit-Policy")
	if len(state) == 0 {
		return
	}
	known := p.policies
	p.policies = make(map[string]*policy, len(state))
	for name, left := range state {
		r, t := number(left, "r"), number(left, "t")
		if r < 0 {
			continue
		}
		old := known[name]
		l := newPolicy(r, t, allowed[name], old, refused)
		l.at, l.told, l.full = now, now, now.Add(seconds(cmp.Or(max(t, 0), l.window)))
		l.level = r - float64(p.flying) // others that are on their way were counted there, or will be
		if old != nil && sent.Before(old.told) {
			// What was told meanwhile may be newer.
			old.refill(now)
			l.level = min(l.level, old.level)
			if old.full.After(l.full) {
				l.full = old.full
			}
		}
		p.policies[name] = l
	}
}

// newPolicy is what a policy allows, of which r requests are left. t is, in seconds,
// the time until all are there again, or in a refusal until this one passes; -1: not
// told.
func newPolicy(r, t float64, allowed *httpsfv.Params, old *policy, refused bool) *policy {
	q, w := number(allowed, "q"), number(allowed, "w")
	if q < 1 || w < 1 {
		l := &policy{quota: max(r, 1), window: max(t, 1)}
		if old != nil {
			l.quota = max(l.quota, old.quota) // it has held as much
		}
		return l
	}
	edited := old == nil || old.quota != q || old.window != w
	return &policy{quota: q, window: w, bucket: (edited || old.bucket) && (refused || refilling(q, w, r, t))}
}

// refilling tells a bucket from a window: its time to full is what its rate says,
// but for w and t, which are rounded to a second, and r, rounded to a token.
func refilling(q, w, r, t float64) bool {
	return t < 0 || math.Abs(t-(q-r)*w/q) <= 2+w/q
}

// items reads a list of strings with parameters.
func items(h http.Header, field string) map[string]*httpsfv.Params {
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil {
		return nil
	}
	found := make(map[string]*httpsfv.Params, len(list))
	for _, member := range list[:min(len(list), policiesMax)] {
		if item, ok := member.(httpsfv.Item); ok {
			if name, ok := item.Value.(string); ok {
				found[name] = item.Params
			}
		}
	}
	return found
}

// number returns a whole number among parameters, -1 for none.
func number(params *httpsfv.Params, name string) float64 {
	if params != nil {
		if v, ok := params.Get(name); ok {
			if n, whole := v.(int64); whole && n >= 0 {
				return float64(n)
			}
		}
	}
	return -1
}
