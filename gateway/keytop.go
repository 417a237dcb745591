package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/libs/counters"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/topk"
)

const (
	topKept   = 256              // keys that are kept for each second: some 500 KiB in all
	topShown  = 50               // of them
	topWindow = 10 * time.Second //
)

// topStore counts by subject and rules which calls this gateway makes to the
// store. Safe for concurrent use.
type topStore struct {
	store.Store
	calls *topk.Top[topKey]
	start time.Time
}

// topKey is what is counted together.
type topKey struct {
	subject limit.Subject
	rules   string // ids with commas, as they were asked for
}

// openCountedStore is counters.Open whose calls are counted, if they leave the
// process: beside a call over a network the count costs nothing.
func openCountedStore(process *serve.Process, cfg counters.Config, provider metric.MeterProvider, log *slog.Logger) (*counters.Counters, *topStore, error) {
	c, err := counters.Open(process, cfg, provider, log)
	if err != nil {
		return nil, nil, err
	}
	calls, err := topk.New[topKey](topKept, topWindow)
	top := &topStore{Store: c.Store, calls: calls, start: time.Now()}
	if !c.Local {
		c.Store = top
	}
	return c, top, err
}

// Take implements store.Store.
func (t *topStore) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	ids := make([]string, len(ask.Entries))
	for i := range ask.Entries {
		if r := ask.Entries[i].Rule; r != nil { // else the store refuses it
			ids[i] = r.ID
		}
	}
	t.calls.Add(time.Since(t.start), topKey{ask.Subject.Clone(), strings.Join(ids, ",")}, 1)
	return t.Store.Take(ctx, ask, result)
}

// topView is what /debug/top answers.
type topView struct {
	Seconds float64   `json:"seconds"` // that it looks back
	Keys    []topLine `json:"keys"`    // the most called first
	Hottest []hotLine `json:"hottest"` // of each rule, in the last whole 10 s; the nearest to its limit first
}

// hotLine is the subject that this gateway admitted most of what it is entitled to.
type hotLine struct {
	Rule     string  `json:"rule"`
	Subject  string  `json:"subject"`
	Admitted int64   `json:"admitted"` // tokens
	Entitled float64 `json:"entitled"` // by all gateways together
}

type topLine struct {
	Subject string   `json:"subject"`
	Rules   []string `json:"rules"`
	Calls   int64    `json:"calls"`
	// Error is how much too high Calls may be, where there are more subjects
	// than are kept.
	Error int64 `json:"error,omitempty"`
}

// view tells which subjects this gateway calls a shared store for most (none where
// the counters are its own), and whom it admits most.
func (t *topStore) view(rules []limiter.RuleStats) topView {
	view := topView{Seconds: topWindow.Seconds(), Keys: []topLine{}, Hottest: []hotLine{}}
	for _, item := range t.calls.Most(time.Since(t.start), topShown) {
		view.Keys = append(view.Keys, topLine{item.Key.subject.String(), strings.Split(item.Key.rules, ","), item.Count, item.Error})
	}
	slices.SortFunc(rules, func(a, b limiter.RuleStats) int { return cmp.Compare(b.Hottest.Ratio(), a.Hottest.Ratio()) })
	for _, r := range rules {
		if hot := r.Hottest; hot.Admitted > 0 {
			view.Hottest = append(view.Hottest, hotLine{r.ID, hot.Subject.String(), hot.Admitted, hot.Entitled})
		}
	}
	return view
}

// withTop adds /debug/top to what the admin port serves, as JSON.
func withTop(admin http.Handler, top *topStore, stats func() limiter.Stats) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", admin)
	mux.HandleFunc("GET /debug/top", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = writeJSON(w, top.view(stats().Rules)) // a client that has left needs no answer
	})
	return mux
}
