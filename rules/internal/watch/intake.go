package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	storeEvery   = time.Second     // reports of one second are stored together
	storeTimeout = 5 * time.Second // for one batch
	batchMax     = 500             // reports in one transaction
	pendingMax   = 64 << 20        // bytes that wait to be stored; more are refused, and come again
	reportSoon   = 2 * time.Second // while a rollout waits for reports
)

// intake keeps reports until they are stored. Safe for concurrent use.
type intake struct {
	store      ledger.Reports
	rollingOut func(domain string) bool
	log        *slog.Logger
	meter      *meter

	mu      sync.Mutex
	pending []ledger.Report
	places  map[source]place
	bytes   int // of pending, encoded
}

// source is who reports: counts go from an incarnation's start on, so that only
// its own last report makes the ones before superfluous.
type source struct{ domain, pod, incarnation string }

// place is where in pending a report is, and how large.
type place struct{ index, size int }

func newIntake(cfg Config, m *meter) *intake {
	return &intake{store: cfg.Reports, rollingOut: cfg.RollingOut, log: cfg.Logger, meter: m, places: map[source]place{}}
}

// Report implements WatchService.
func (h *Hub) Report(ctx context.Context, q *rulesv1.ReportRequest) (*rulesv1.ReportResponse, error) {
	if err := h.cfg.Permit(ctx); err != nil {
		return nil, err
	}
	if err := checkReport(q); err != nil {
		return nil, err
	}
	if _, err := h.find(q.GetDomain()); err != nil {
		return nil, failure(err)
	}
	answer, err := h.reports.take(q, time.Now())
	return answer, failure(err)
}

func (in *intake) take(q *rulesv1.ReportRequest, now time.Time) (*rulesv1.ReportResponse, error) {
	report := ledger.Report{
		Domain: q.GetDomain(), Pod: q.GetPod(), Incarnation: q.GetIncarnation(), Revision: q.GetRevision(),
		Faults: q.GetFaults(), Counts: q.GetCounts(), At: now,
	}
	if !in.keep(report, proto.Size(q)) {
		return nil, errBusy
	}
	answer := &rulesv1.ReportResponse{}
	if in.rollingOut(q.GetDomain()) {
		answer.Next = durationpb.New(reportSoon)
	}
	return answer, nil
}

func (in *intake) keep(r ledger.Report, size int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	from := source{r.Domain, r.Pod.GetId(), r.Incarnation}
	at, again := in.places[from]
	if in.bytes+size-at.size > pendingMax {
		return false
	}
	if !again {
		at.index = len(in.pending)
		in.pending = append(in.pending, ledger.Report{})
	}
	in.pending[at.index] = r
	in.bytes += size - at.size
	in.places[from] = place{at.index, size}
	return true
}

// run stores reports until ctx ends, and then those that are left.
func (in *intake) run(ctx context.Context) error {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for failed := false; ; {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		err := in.flush(context.WithoutCancel(ctx))
		if err != nil && !failed {
			in.log.Warn("reports of pods cannot be stored: rollouts wait", "error", err)
		}
		failed = err != nil
		if ctx.Err() != nil {
			return nil
		}
	}
}

// flush stores what is pending, or drops it.
func (in *intake) flush(ctx context.Context) error {
	in.mu.Lock()
	all := in.pending
	in.pending, in.bytes = nil, 0
	clear(in.places)
	in.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var failures []error
	for batch := range slices.Chunk(all, batchMax) {
		err := in.store.Report(ctx, batch)
		if err != nil {
			failures = append(failures, err)
		}
		in.meter.stored(ctx, len(batch), err)
	}
	return errors.Join(failures...)
}
