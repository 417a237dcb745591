package serve

import (
	"fmt"
	"net/http"
	"net/http/pprof"
)

// Admin is what an admin server answers with.
type Admin struct {
	Ready   func() error // why the process should get no requests; Process.Ready
	Metrics http.Handler
	Pprof   bool // also serve profiles: they show the inside of the process, and taking one costs CPU
}

// Handler serves GET /healthz (200 while the process answers), /readyz (200, or
// 503 with the reason), /metrics and, if asked, /debug/pprof/.
func (a Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := a.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", a.Metrics)
	if a.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
