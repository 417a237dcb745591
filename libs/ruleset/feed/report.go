package feed

import (
	"context"
	"math/rand/v2"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// The time between two reports is what the service asks for, within bounds, less up
// to a fifth of it: pods that came up together do not report together.
const (
	reportFirst = 2 * time.Second // for the first one, at most
	reportEvery = 10 * time.Second
	reportMin   = time.Second
	reportMax   = 5 * time.Minute
)

// report tells the service what the rules decide, until ctx ends. A report that fails
// is made good by the next one: counts go from the start on.
func (f *Feed) report(ctx context.Context) {
	next, failed := reportEvery, false
	for wait := rand.N(reportFirst); ; wait = next - rand.N(next/5) {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		at := f.contact.watched()
		if at == nil {
			continue // who reports makes no connection that watching did not
		}
		asked, err := f.reportTo(ctx, at)
		if err != nil && !failed && ctx.Err() == nil {
			f.log.Warn("the rules service takes no report: the next one will make it good", "address", at.address, "error", err)
		}
		if failed = err != nil; failed {
			asked = reportEvery
		}
		next = min(max(asked, reportMin), reportMax)
	}
}

func (f *Feed) reportTo(ctx context.Context, at *service) (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	status := f.Status()
	answer, err := at.client.Report(ctx, &rulesv1.ReportRequest{
		Domain: f.cfg.Domain, Pod: f.cfg.Pod, Incarnation: f.incarnation,
		Revision: status.Revision, Faults: status.Faults, Counts: f.tally.report(),
	})
	if err != nil {
		return 0, err
	}
	if answer.GetNext() == nil {
		return reportEvery, nil
	}
	return answer.GetNext().AsDuration(), nil
}
