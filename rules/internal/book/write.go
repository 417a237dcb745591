package book

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	whyMax = 1024 // bytes of Write.why
	// writeTimeout bounds the wait for the right to write, and the write.
	writeTimeout = 15 * time.Second
	// domainsMax bounds what every instance holds: each domain is an index of its own.
	domainsMax = 64
)

// order is a write as it was asked for.
type order struct {
	domain, author string
	write          *rulesv1.Write
	field          string // of the request that holds what is written, as violations name it
}

// draft is a write in the making: what is in force, and what is to become of it.
// Whoever holds it holds the right to write.
type draft struct {
	order
	tx       ledger.Tx
	revision int64            // the last one of the domain; 0 if it was never written to
	rules    *ruleset.Ruleset // as of that revision
	at       *view            // the same
	entries  []*ledger.Entry
}

// order checks what all writes say alike.
func (b *Book) order(domain, author string, w *rulesv1.Write, field string) (order, error) {
	domain, err := b.domainOf(domain)
	if err != nil {
		return order{}, err
	}
	why := w.GetWhy()
	if len(why) > whyMax {
		return order{}, badField("write.why", why, "has %d bytes: at most %d are allowed", len(why), whyMax)
	}
	if !utf8.ValidString(why) || strings.ContainsRune(why, 0) {
		return order{}, badField("write.why", why, "want UTF-8 without NUL")
	}
	return order{domain: domain, author: author, write: w, field: field}, nil
}

// write makes a draft, checks it as pods will and commits it; with validate_only
// all but the last. It returns the revision that the draft makes, or would make;
// without entries it is the last revision.
func (b *Book) write(ctx context.Context, o order, plan func(ctx context.Context, d *draft) error) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	would := int64(0)
	revision, err = b.store.Write(ctx, func(ctx context.Context, tx ledger.Tx) error {
		d, err := b.draft(ctx, o, tx)
		if err != nil {
			return err
		}
		if err := plan(ctx, d); err != nil {
			return err
		}
		if err := d.check(); err != nil {
			return err
		}
		if o.write.GetValidateOnly() {
			would = tx.Head() + min(1, int64(len(d.entries)))
			return nil
		}
		for _, e := range d.entries {
			if err := tx.Append(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, ledger.ErrUnavailable) {
		return 0, &Problem{Code: CodeUnavailable, Detail: away + "; read again whether this was written", cause: err}
	}
	if err != nil {
		return 0, asProblem(err)
	}
	return max(revision, would), nil
}

// draft begins a draft with the domain as it is now.
func (b *Book) draft(ctx context.Context, o order, tx ledger.Tx) (*draft, error) {
	s := b.state.Load()
	if s == nil {
		return nil, &Problem{Code: CodeUnavailable, Detail: ErrNotReady.Error(), cause: ErrNotReady}
	}
	domain, at, err := s.upTo(ctx, tx, o.domain)
	if err != nil {
		return nil, err
	}
	if domain.revision == 0 && len(s.domains) >= domainsMax {
		return nil, badField("domain", o.domain, "would be one more than the %d domains that are allowed", domainsMax)
	}
	return &draft{order: o, tx: tx, revision: domain.revision, rules: domain.rules, at: at}, nil
}

// add notes a change. before is what it replaces, nil for nothing.
func (d *draft) add(action, why string, version int64, change, before *rulesv1.Change) {
	d.entries = append(d.entries, &ledger.Entry{
		Domain: d.domain, Change: change, Before: before, Version: version, Action: action, Author: d.author, Why: why,
	})
}

// check compiles what the draft makes, as pods will: a candidate also as the rule
// that it is to be, and all that there is as it will be once every rollout is
// through. A promotion must not be what finds a fault.
func (d *draft) check() error {
	if len(d.entries) == 0 {
		return nil
	}
	changes, atOnce := make([]*rulesv1.Change, len(d.entries)), make([]*rulesv1.Change, len(d.entries))
	own := map[ledger.Item]string{}
	candidate := false
	for i, e := range d.entries {
		changes[i], atOnce[i] = e.Change, e.Change
		if c := e.Change.GetCandidate(); c != nil {
			candidate, atOnce[i] = true, putRule(c.GetRule())
		}
		own[ledger.ItemOf(changes[i])], own[ledger.ItemOf(atOnce[i])] = d.field, d.field
	}
	revision := d.tx.Head() + 1
	if candidate {
		if _, faults := d.rules.Apply(atOnce, revision); len(faults) > 0 {
			return invalid(refused, faults, fieldsOf(d.rules.Source(), atOnce, own))
		}
	}
	next, faults := d.rules.Apply(changes, revision)
	if len(faults) > 0 {
		return invalid(refused, faults, fieldsOf(d.rules.Source(), changes, own))
	}
	promotions, others := d.promotions(own)
	if !others || d.urgent() {
		return nil // with its own candidates promoted it was compiled above
	}
	if _, faults = next.Apply(promotions, revision+1); len(faults) > 0 {
		return invalid("the change would be at odds with a rollout under way, once that is promoted", faults, fieldsOf(next.Source(), promotions, own))
	}
	return nil
}

// urgent reports whether the draft only takes something back: no rollout of another
// rule may stand in the way of that.
func (d *draft) urgent() bool {
	return !slices.ContainsFunc(d.entries, func(e *ledger.Entry) bool {
		return e.Action != ledger.ActionRollback && e.Action != ledger.ActionShadow
	})
}

// promotions are the changes that make every candidate the rule that there will be
// after the draft. others is whether any of them is no candidate of the draft itself.
func (d *draft) promotions(own map[ledger.Item]string) (changes []*rulesv1.Change, others bool) {
	for _, c := range d.candidates() {
		item := ledger.Item{Kind: rulesv1.Kind_KIND_CANDIDATE, ID: c.GetRule().GetId()}
		if _, put := own[item]; !put {
			others = true
		}
		changes = append(changes, putRule(c.GetRule()), deletion(item.Kind, item.ID))
	}
	return changes, others
}

// candidates are those that there will be after the draft.
func (d *draft) candidates() []*rulesv1.Candidate {
	after := &view{index: d.at.index, recent: maps.Clone(d.at.recent)}
	for _, e := range d.entries {
		after.take([]*rulesv1.Change{e.Change})
	}
	return after.candidates()
}

// expect checks the version of what is to be written.
func (o order) expect(current int64) error {
	if want := o.write.GetExpectedVersion(); want != current {
		return &Problem{Code: CodeVersionConflict, Detail: conflict(want, current), Current: current}
	}
	return nil
}

// precondition refuses a write that does not say which version it was made for.
func (o order) precondition() error {
	if o.write == nil || o.write.ExpectedVersion == nil {
		return &Problem{Code: CodePreconditionRequired, Detail: "expected_version is missing: want the version that was read, or 0 for what must not exist"}
	}
	return nil
}

func conflict(want, current int64) string {
	switch {
	case current == 0:
		return "it does not exist (any more)"
	case want == 0:
		return "it exists already"
	}
	return "it has changed since it was read: read it again"
}

func putRule(r *rulesv1.Rule) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: r}}
}

func putCandidate(r *rulesv1.Rule, stage rulesv1.Stage) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Candidate{Candidate: &rulesv1.Candidate{Rule: r, Stage: stage}}}
}

func deletion(kind rulesv1.Kind, id string) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Deletion{Deletion: &rulesv1.Deletion{Kind: kind, Id: id}}}
}

// ruleBefore is a rule as Entry.Before; nil for none.
func ruleBefore(r *rulesv1.Rule) *rulesv1.Change {
	if r == nil {
		return nil
	}
	return putRule(r)
}

// withVersion is a copy of a rule with another version.
func withVersion(r *rulesv1.Rule, version int64) *rulesv1.Rule {
	r = proto.CloneOf(r)
	r.Version = version
	return r
}
