package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/book"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Author is whom the audit log names for what the guard does.
const Author = "rollout guard"

const (
	// lookEvery is how often every rollout is judged, give or take a quarter, so
	// that instances do not ask the database in step.
	lookEvery = 2 * time.Second
	// lookTimeout bounds the queries and writes for one rollout.
	lookTimeout = 10 * time.Second
	// canarySeen is how long after its last report a canary pod counts as one. Pods
	// report every 10 s at most.
	canarySeen = time.Minute
	// pageRollouts is how many rollouts are asked for at once.
	pageRollouts = 500
	// refusalsShown bounds how many pods are named that could not take a candidate.
	refusalsShown = 3
)

// Guard takes rollouts from stage to stage, or back. Every instance runs one.
type Guard struct {
	store  ledger.Store
	book   *book.Book
	policy Policy
	log    *slog.Logger
	now    func() time.Time
}

// New makes a guard of the rollouts of a book. The policy is valid; now is
// time.Now but in tests.
func New(b *book.Book, store ledger.Store, policy Policy, log *slog.Logger, now func() time.Time) *Guard {
	return &Guard{store: store, book: b, policy: policy, log: log, now: now}
}

// Run judges all rollouts again and again until ctx ends. A store that cannot be
// reached is logged once; rollouts then stay where they are.
func (g *Guard) Run(ctx context.Context) {
	failed := false
	for {
		quarter := lookEvery / 4
		timer := time.NewTimer(lookEvery - quarter + rand.N(2*quarter))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := g.Look(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			g.log.Error("rollouts cannot be judged: they stay where they are", "error", err)
		}
		failed = err != nil
	}
}

// Look judges every rollout once. A failure of one does not keep others from being
// judged.
func (g *Guard) Look(ctx context.Context) error {
	if !g.book.RollingOutAny() {
		return nil
	}
	rollouts, err := g.active(ctx)
	if err != nil {
		return err
	}
	var failures []error
	pods := map[string][]*rulesv1.PodStatus{}
	for _, r := range rollouts {
		if _, asked := pods[r.Domain]; !asked {
			if pods[r.Domain], err = g.store.Pods(ctx, r.Domain, g.now().Add(-canarySeen)); err != nil {
				return fmt.Errorf("pods of %s: %w", r.Domain, err)
			}
		}
		if err := g.judge(ctx, r, pods[r.Domain]); err != nil {
			failures = append(failures, fmt.Errorf("rollout of rule %s of %s: %w", r.Rule.GetId(), r.Domain, err))
		}
	}
	return errors.Join(failures...)
}

// active returns the rollouts under way.
func (g *Guard) active(ctx context.Context) ([]ledger.Rollout, error) {
	var all []ledger.Rollout
	var before ledger.Position
	for {
		page, err := g.store.Rollouts(ctx, ledger.RolloutQuery{Active: true}, before, pageRollouts)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < pageRollouts {
			return all, nil
		}
		before = page[len(page)-1].Position
	}
}

// stages are the stages that states of a rollout under way stand for.
var stages = map[rulesv1.RolloutState]rulesv1.Stage{
	rulesv1.RolloutState_ROLLOUT_STATE_SHADOW: rulesv1.Stage_STAGE_SHADOW,
	rulesv1.RolloutState_ROLLOUT_STATE_CANARY: rulesv1.Stage_STAGE_CANARY,
}

// goals are the states that steps lead to.
var goals = map[Do]rulesv1.RolloutState{
	Canary:   rulesv1.RolloutState_ROLLOUT_STATE_CANARY,
	Promote:  rulesv1.RolloutState_ROLLOUT_STATE_PROMOTED,
	RollBack: rulesv1.RolloutState_ROLLOUT_STATE_ROLLED_BACK,
}

// judge observes a rollout and does what the policy says.
func (g *Guard) judge(ctx context.Context, r ledger.Rollout, pods []*rulesv1.PodStatus) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	counts, err := g.store.Counts(ctx, r.Domain, r.Rule.GetId())
	if errors.Is(err, ledger.ErrNotFound) {
		return nil // another instance has ended it
	}
	if err != nil {
		return err
	}
	base, ok := g.base(r)
	if !ok {
		return nil
	}
	o := Observed{Stage: stages[r.State], For: g.now().Sub(r.Since), Counts: counts, Base: base}
	for _, p := range pods {
		if p.GetCanary() {
			o.Canaries++
		}
	}
	o.Refusals = refusals(r, pods, o.Canaries > 0)
	verdict := g.policy.Decide(o)
	if verdict.Do == Wait {
		return nil
	}
	acted, err := g.book.StepRollout(ctx, book.Step{
		Domain: r.Domain, Rule: r.Rule.GetId(), Version: r.Rule.GetVersion(), From: o.Stage,
		NotBefore: r.Since.Add(verdict.After), To: goals[verdict.Do], Author: Author, Why: verdict.Why,
	})
	if acted {
		g.log.Info("rollout: a step", "domain", r.Domain, "rule", r.Rule.GetId(), "version", r.Rule.GetVersion(), "state", goals[verdict.Do].String(), "why", verdict.Why)
	}
	return err
}
