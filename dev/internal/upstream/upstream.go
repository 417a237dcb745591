// Package upstream is the API behind the gateways of the system on one machine: it
// answers anything with what it was asked.
package upstream

import (
	"encoding/json"
	"io"
	"net/http"
)

// Handler answers every request with its method, its path and its size in bytes.
func Handler() http.Handler {
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
		}{"upstream", r.Method, r.URL.Path, size})
	})
}
