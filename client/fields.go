package client

import (
	"net/http"
	"time"

	"github.com/dunglas/httpsfv"
)

// policiesMax bounds the policies of one answer that are looked at.
const policiesMax = 32

// read takes RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers):
// what the policies allow, and what is left of them. Policies that an answer does
// not name are forgotten, fields that cannot be read change nothing.
func (p *pacer) read(h http.Header, now time.Time) {
	allowed, state := items(h, "RateLimit-Policy"), items(h, "RateLimit")
	if len(allowed) == 0 || len(state) == 0 {
		return
	}
	known := p.policies
	p.policies = make(map[string]*policy, len(allowed))
	for name, params := range allowed {
		q, window := number(params, "q"), number(params, "w")
		if q < 1 || window < 1 {
			continue
		}
		next := &policy{quota: float64(q), window: float64(window), level: float64(q), at: now}
		if old := known[name]; old != nil {
			next.level, next.at = old.level, old.at
			next.refill(now)
		}
		if left, ok := state[name]; ok {
			// Others that are on their way were counted there, or will be.
			next.level = float64(max(number(left, "r"), 0)) - float64(p.flying)
		}
		p.policies[name] = next
	}
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
func number(params *httpsfv.Params, name string) int64 {
	v, ok := params.Get(name)
	if n, whole := v.(int64); ok && whole {
		return n
	}
	return -1
}
