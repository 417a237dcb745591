package memstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// rollout is one with what pods have told of its present stage.
type rollout struct {
	ledger.Rollout
	stageRevision int64
	counts        map[life]*count
}

// life is one incarnation of a pod.
type life struct{ pod, incarnation string }

// count is what one life of a pod has told in a stage: first and last.
type count struct{ first, last both }

// both are the counts of candidate and base.
type both struct{ candidate, base decided }

type decided struct{ evaluated, refused int64 }

func (r *rollout) active() bool {
	return r.State == rulesv1.RolloutState_ROLLOUT_STATE_SHADOW || r.State == rulesv1.RolloutState_ROLLOUT_STATE_CANARY
}

// underWay returns the rollout of a rule; nil for none.
func (s *Store) underWay(domain, rule string) *rollout {
	for _, r := range s.rollouts {
		if r.active() && r.Domain == domain && r.Rule.GetId() == rule {
			return r
		}
	}
	return nil
}

// roll begins a rollout, brings it to a stage, or ends it, if an entry does so.
func (s *Store) roll(e *ledger.Entry) {
	item := ledger.ItemOf(e.Change)
	if item.Kind != rulesv1.Kind_KIND_CANDIDATE {
		return
	}
	r := s.underWay(e.Domain, item.ID)
	if r == nil {
		var base *rulesv1.Rule
		if d := s.domains[e.Domain]; d != nil {
			base = d.items[ledger.Item{Kind: rulesv1.Kind_KIND_RULE, ID: item.ID}].GetRule()
		}
		r = &rollout{Rollout: ledger.Rollout{
			Domain: e.Domain, BaseVersion: base.GetVersion(), StartedAt: e.At, Author: e.Author,
			Position: ledger.Position{Revision: e.Revision, Ordinal: e.Ordinal},
		}}
		s.rollouts = append(s.rollouts, r)
	}
	state := stateOf(e)
	if c := e.Change.GetCandidate(); c != nil {
		r.Rule = c.GetRule()
	}
	if state != r.State {
		r.State, r.Since, r.stageRevision, r.counts = state, e.At, e.Revision, map[life]*count{}
	}
	r.Why = e.Why
}

// stateOf returns the state that an entry about a candidate brings its rollout to.
func stateOf(e *ledger.Entry) rulesv1.RolloutState {
	switch {
	case e.Change.GetCandidate().GetStage() == rulesv1.Stage_STAGE_SHADOW:
		return rulesv1.RolloutState_ROLLOUT_STATE_SHADOW
	case e.Change.GetCandidate().GetStage() == rulesv1.Stage_STAGE_CANARY:
		return rulesv1.RolloutState_ROLLOUT_STATE_CANARY
	case e.Action == ledger.ActionPromote:
		return rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED
	}
	return rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK
}

type podID struct{ domain, id string }

// Report implements ledger.Reports.
func (s *Store) Report(_ context.Context, reports []ledger.Report) error {
	for i := range reports {
		if err := ledger.CheckReport(&reports[i]); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := time.Time{}
	for i := range reports {
		r := &reports[i]
		if r.At.After(latest) {
			latest = r.At
		}
		s.pods[podID{r.Domain, r.Pod.GetId()}] = &rulesv1.PodStatus{
			Id: r.Pod.GetId(), Region: r.Pod.GetRegion(), Canary: r.Pod.GetCanary(), Revision: r.Revision,
			Faults: slices.Clone(r.Faults), SeenAt: timestamppb.New(r.At.Truncate(ledger.Resolution)),
		}
		for _, rollout := range s.rollouts {
			if rollout.active() && rollout.Domain == r.Domain {
				rollout.report(r)
			}
		}
	}
	for id, p := range s.pods {
		if p.GetSeenAt().AsTime().Before(latest.Add(-ledger.PodsKept)) {
			delete(s.pods, id)
		}
	}
	return nil
}

// report adds a pod's report to the stage if it is in it.
func (r *rollout) report(told *ledger.Report) {
	if told.Revision < r.stageRevision {
		return
	}
	canary := r.State == rulesv1.RolloutState_ROLLOUT_STATE_CANARY
	var now both
	for _, c := range told.Counts {
		switch {
		case c.GetRule() != r.Rule.GetId():
		case c.GetVersion() == r.Rule.GetVersion() && (!canary || told.Pod.GetCanary()):
			now.candidate = decided{c.GetEvaluated(), c.GetRefused()}
		case c.GetVersion() == r.BaseVersion && (!canary || !told.Pod.GetCanary()):
			now.base = decided{c.GetEvaluated(), c.GetRefused()}
		}
	}
	of := life{told.Pod.GetId(), told.Incarnation}
	if r.counts[of] == nil {
		r.counts[of] = &count{first: now, last: now}
		return
	}
	last := &r.counts[of].last
	last.candidate, last.base = last.candidate.atLeast(now.candidate), last.base.atLeast(now.base)
}

// atLeast is the larger of two counts: they never shrink, reports can overtake each
// other.
func (d decided) atLeast(o decided) decided {
	return decided{max(d.evaluated, o.evaluated), max(d.refused, o.refused)}
}

// Pods implements ledger.Reports.
func (s *Store) Pods(_ context.Context, domain string, since time.Time) ([]*rulesv1.PodStatus, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var pods []*rulesv1.PodStatus
	for id, p := range s.pods {
		if id.domain == domain && !p.GetSeenAt().AsTime().Before(since) {
			pods = append(pods, proto.CloneOf(p))
		}
	}
	slices.SortFunc(pods, func(x, y *rulesv1.PodStatus) int { return strings.Compare(x.GetId(), y.GetId()) })
	return pods, nil
}

// Counts implements ledger.Reports.
func (s *Store) Counts(_ context.Context, domain, rule string) (ledger.Counts, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.underWay(domain, rule)
	if r == nil {
		return ledger.Counts{}, ledger.ErrNotFound
	}
	var sum ledger.Counts
	pods := map[string]bool{}
	for of, c := range r.counts {
		pods[of.pod] = true
		sum.Candidate.Evaluated += c.last.candidate.evaluated - c.first.candidate.evaluated
		sum.Candidate.Refused += c.last.candidate.refused - c.first.candidate.refused
		sum.Base.Evaluated += c.last.base.evaluated - c.first.base.evaluated
		sum.Base.Refused += c.last.base.refused - c.first.base.refused
	}
	sum.Pods = len(pods)
	return sum, nil
}
