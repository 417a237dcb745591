package watch

import (
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Bounds of what pods may say, as watch.proto tells them.
const (
	podIDMax       = 128 // bytes
	regionMax      = 64  // bytes
	incarnationMax = 64  // bytes
	faultsMax      = 100
	faultMax       = 1024 // bytes
	countsMax      = 8192
	shownMax       = 60 // bytes of a value in an error
)

// faults is what is wrong with a request, each field with what is allowed.
type faults []string

func (f *faults) add(ok bool, field string, value any, want string) {
	if ok {
		return
	}
	if s, isText := value.(string); isText {
		value = fmt.Sprintf("%.*q", shownMax, s)
	}
	*f = append(*f, fmt.Sprintf("%s is %v: want %s", field, value, want))
}

func (f faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return connect.NewError(connect.CodeInvalidArgument, errors.New(strings.Join(f, "; ")))
}

func checkWatch(q *rulesv1.WatchRequest) error {
	var f faults
	f.domain(q.GetDomain())
	f.pod(q.GetPod())
	f.add(q.GetRevision() >= 0, "revision", q.GetRevision(), "0 or more")
	return f.err()
}

func checkReport(q *rulesv1.ReportRequest) error {
	var f faults
	f.domain(q.GetDomain())
	f.pod(q.GetPod())
	f.text("incarnation", q.GetIncarnation(), 1, incarnationMax)
	f.add(q.GetRevision() >= 0, "revision", q.GetRevision(), "0 or more")
	f.add(len(q.GetFaults()) <= faultsMax, "the number of faults", len(q.GetFaults()), fmt.Sprintf("at most %d", faultsMax))
	f.add(len(q.GetCounts()) <= countsMax, "the number of counts", len(q.GetCounts()), fmt.Sprintf("at most %d", countsMax))
	if len(f) > 0 {
		return f.err()
	}
	for i, text := range q.GetFaults() {
		ok := len(text) <= faultMax && !strings.ContainsRune(text, 0) // PostgreSQL keeps no NUL
		f.add(ok, fmt.Sprintf("faults[%d]", i), text, fmt.Sprintf("at most %d bytes without NUL", faultMax))
	}
	f.counts(q.GetCounts())
	return f.err()
}

func (f *faults) domain(name string) {
	f.add(limit.ValidateDomain(name) == nil, "domain", name, "1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit")
}

func (f *faults) pod(p *rulesv1.Pod) {
	f.text("pod.id", p.GetId(), 1, podIDMax)
	f.text("pod.region", p.GetRegion(), 0, regionMax)
}

// text checks printable ASCII.
func (f *faults) text(field, value string, least, most int) {
	ok := len(value) >= least && len(value) <= most && !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' })
	f.add(ok, field, value, fmt.Sprintf("%d to %d bytes of printable ASCII", least, most))
}

// counts names the first that is wrong: the rest most likely is so in the same way.
func (f *faults) counts(all []*rulesv1.RuleCounts) {
	type version struct {
		rule    string
		version int64
	}
	seen := make(map[version]bool, len(all))
	for i, c := range all {
		at := fmt.Sprintf("counts[%d]", i)
		of := version{c.GetRule(), c.GetVersion()}
		f.add(limit.ValidateName("rule", c.GetRule()) == nil, at+".rule", c.GetRule(), "a rule's id")
		f.add(c.GetVersion() >= 0, at+".version", c.GetVersion(), "0 or more")
		f.add(c.GetEvaluated() >= 0, at+".evaluated", c.GetEvaluated(), "0 or more")
		f.add(c.GetRefused() >= 0 && c.GetRefused() <= c.GetEvaluated(), at+".refused", c.GetRefused(), "0 to evaluated")
		f.add(!seen[of], at, c.GetRule(), "each version of a rule once")
		if len(*f) > 0 {
			return
		}
		seen[of] = true
	}
}
