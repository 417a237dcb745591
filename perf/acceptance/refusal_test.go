package acceptance

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Buckets that do not refill while a test runs: each remainder shows exactly
// what was spent. Each plan has one limit that is the tightest.
const refusalRules = `
domain: acceptance
plans: [{id: tight-route}, {id: tight-account}, {id: tight-quota}]
routes:
  - {id: labels, match: "GET /v1/labels"}
  - {id: bulk, match: "POST /v1/bulk", cost: 10}
rules:
  - {id: a-account, plan: tight-route, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 100}
  - {id: a-quota, plan: tight-route, identity: api_key, algorithm: fixed_window, limit: 1000, window: 1d}
  - {id: a-route, plan: tight-route, route: labels, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 3}
  - {id: b-account, plan: tight-account, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 13}
  - {id: b-quota, plan: tight-account, identity: api_key, algorithm: fixed_window, limit: 1000, window: 1d}
  - {id: b-route, plan: tight-account, route: labels, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 100}
  - {id: c-account, plan: tight-quota, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 100}
  - {id: c-quota, plan: tight-quota, identity: api_key, algorithm: fixed_window, limit: 3, window: 1d}
  - {id: c-route, plan: tight-quota, route: labels, identity: api_key, algorithm: token_bucket, rate: 1/d, burst: 100}
`

// A request that one limit refuses spends nothing of any other, whichever of
// route, account and quota refuses it, and whatever it costs.
func TestRefusedRequestSpendsNothingElse(t *testing.T) {
	for _, c := range []struct {
		plan     string
		requests []request
		left     map[string]int64 // by rule, as the last reply tells it
	}{
		{"tight-route", []request{{labels, 3, 200}, {labels, 7, 429}},
			map[string]int64{"a-route": 0, "a-account": 97, "a-quota": 997}},
		{"tight-account", []request{{bulk, 1, 200}, {bulk, 5, 429}, {labels, 3, 200}, {labels, 5, 429}},
			map[string]int64{"b-route": 97, "b-account": 0, "b-quota": 996}},
		{"tight-quota", []request{{labels, 3, 200}, {labels, 7, 429}},
			map[string]int64{"c-route": 97, "c-account": 97, "c-quota": 0}},
	} {
		t.Run(c.plan, func(t *testing.T) {
			if now := time.Now().UTC(); now.Day() != now.Add(time.Minute).Day() {
				t.Skip("the quotas' day ends within a minute")
			}
			target := startWith(t, refusalRules, c.plan)
			var last http.Header
			for _, r := range c.requests {
				for range r.times {
					last = r.send(t, target)
				}
			}
			if left := remaining(t, last); !maps.Equal(left, c.left) {
				t.Errorf("left %v, want %v", left, c.left)
			}
		})
	}
}

const (
	labels = "GET /v1/labels"
	bulk   = "POST /v1/bulk"
)

// request is sent a number of times and answered with one status.
type request struct {
	route  string
	times  int
	status int
}

// send sends the request once, with the key that startWith made, and returns
// the reply's header.
func (r request) send(t *testing.T, target string) http.Header {
	t.Helper()
	method, path, _ := strings.Cut(r.route, " ")
	sent, err := http.NewRequestWithContext(t.Context(), method, target+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	sent.Header.Set("X-Api-Key", apiKey)
	reply, err := http.DefaultClient.Do(sent)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != r.status {
		t.Fatalf("%s: %s %v, want %d: %s", r.route, reply.Status, err, r.status, body)
	}
	return reply.Header
}

var state = regexp.MustCompile(`"([^"]+)";r=(\d+)`)

// remaining reads what is left of each rule from the RateLimit field.
func remaining(t *testing.T, header http.Header) map[string]int64 {
	t.Helper()
	left := map[string]int64{}
	for _, match := range state.FindAllStringSubmatch(header.Get("RateLimit"), -1) {
		n, err := strconv.ParseInt(match[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		left[match[1]] = n
	}
	return left
}
