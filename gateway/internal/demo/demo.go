// Package demo is what the gateway runs on when it is given nothing: rules, keys
// that everybody knows, and an upstream that answers anything. It is for a first
// look on one machine, and for loopback addresses only.
package demo

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Rules is the demo's rule file, and the example of one.
//
//go:embed rules.yaml
var Rules []byte

// Keys is the demo's key file: of the keys demo-free, demo-growth and
// demo-enterprise.
//
//go:embed keys.yaml
var Keys []byte

// Upstream answers every request with what it was: an API to stand behind the
// gateway.
func Upstream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			http.Error(w, "the body ended early", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// An error here is the connection's; nobody is left to tell.
		_ = json.NewEncoder(w).Encode(struct {
			Service string `json:"service"`
			Method  string `json:"method"`
			Path    string `json:"path"`
			Bytes   int64  `json:"body_bytes"`
		}{"demo upstream", r.Method, r.URL.Path, size})
	})
}

// Welcome says what runs and what to try, given the addresses that are served.
func Welcome(w io.Writer, api, admin string) {
	fmt.Fprintf(w, `
  DEMO: the rules, the keys and the API behind this gateway are built in, and
  everybody knows the keys. Give --upstream and --rules to limit an API of yours.

  Try, in another terminal:

    curl -i -H 'X-Api-Key: demo-free' http://%[1]s/v1/labels
    curl -s -o /dev/null -w '%%{http_code}\n' -H 'X-Api-Key: demo-free' 'http://%[1]s/v1/labels?[1-50]' | sort | uniq -c
    curl -si -H 'X-Api-Key: demo-free' 'http://%[1]s/v1/labels?[1-50]' | tail -n 11

  Counts: http://%[2]s/metrics
  Stop with Ctrl-C.

`, api, admin)
}
