package rollout

import (
	"fmt"
	"strings"
	"time"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Defaults of a Policy.
const (
	// BakeDefault is a few reports of every pod (one in 10 s, or sooner).
	BakeDefault = time.Minute
	// MarginDefault lets a candidate refuse 5 of 100 requests more than the
	// version in force: less is within what traffic does by itself in a minute.
	MarginDefault = 0.05
	// EvidenceDefault is the least that makes a share of refusals worth
	// something: at 100 requests 5 points are 5 refusals.
	EvidenceDefault = 100
)

// patience is how many bakes a stage lasts at most while there is less evidence
// than wanted. After that it is judged by what there is.
const patience = 3

// Policy is when the guard lets a candidate go on.
type Policy struct {
	BakeShadow time.Duration // the least time in shadow
	BakeCanary time.Duration // the least time on canary pods
	Margin     float64       // by how much the share of refused requests may be above that of the version in force, 0 to 1
	Evidence   int64         // requests that a candidate is judged by
}

// DefaultPolicy is the policy unless an operator says otherwise.
func DefaultPolicy() Policy {
	return Policy{BakeShadow: BakeDefault, BakeCanary: BakeDefault, Margin: MarginDefault, Evidence: EvidenceDefault}
}

// Validate says what is out of bounds.
func (p Policy) Validate() error {
	switch {
	case p.BakeShadow < 0 || p.BakeCanary < 0:
		return fmt.Errorf("bake times of %v and %v: want 0 or more", p.BakeShadow, p.BakeCanary)
	case !(p.Margin >= 0 && p.Margin <= 1):
		return fmt.Errorf("a margin of %v: want 0 to 1", p.Margin)
	case p.Evidence < 1:
		return fmt.Errorf("evidence of %d requests: want 1 or more", p.Evidence)
	}
	return nil
}

// Observed is what is known of a rollout at a moment.
type Observed struct {
	Stage    rulesv1.Stage
	For      time.Duration // how long it has been in the stage
	Counts   ledger.Counts // of the stage
	Base     Base
	Canaries int      // canary pods that have reported of late
	Refusals []string // by pods that could not take the candidate: who, and why
}

// Base is what a candidate is to replace.
type Base uint8

// The kinds of Base. What nobody feels counts as no refusal: a rule that in
// shadow would refuse everything is not to be enforced because its candidate
// refuses no more.
const (
	BaseEnforced Base = iota // a rule in force
	BaseShadow               // a rule that evaluates and refuses nothing
	BaseNone                 // no rule
)

// Verdict is what is to be done with a rollout.
type Verdict struct {
	Do    Do
	Why   string        // for the audit log; "" for Wait
	After time.Duration // the time in the stage that the verdict rests on; 0 if it does not
}

// Do is a step of a rollout.
type Do uint8

// The steps.
const (
	Wait Do = iota
	Canary
	Promote
	RollBack
)

// Decide judges a rollout. The first of these that holds decides:
//
//  1. A pod that is to show what the candidate does could not take it: rolled back.
//  2. There is evidence enough, and the candidate refuses more by over the
//     margin: rolled back, however young the stage is.
//  3. The stage has not lasted its bake: wait.
//  4. Evidence, or a canary pod in the canary stage, is missing, and the stage
//     has not lasted 3 bakes: wait.
//  5. No canary pod in the canary stage: rolled back, for nobody has tried it.
//  6. The little evidence that there is shows too many refusals: rolled back.
//  7. On to the next stage; without a canary pod from shadow to every pod.
func (p Policy) Decide(o Observed) Verdict {
	if len(o.Refusals) > 0 {
		return Verdict{Do: RollBack, Why: "could not be taken by " + strings.Join(o.Refusals, "; ") + ": rolled back"}
	}
	enough := p.enough(o)
	if enough && p.refusesMore(o) {
		return Verdict{Do: RollBack, Why: figures(o) + ": rolled back"}
	}
	bake := p.BakeShadow
	if o.Stage == rulesv1.Stage_STAGE_CANARY {
		bake = p.BakeCanary
	}
	if o.For < bake {
		return Verdict{}
	}
	alone := o.Stage == rulesv1.Stage_STAGE_CANARY && o.Canaries == 0
	if !enough || alone {
		bake *= patience
	}
	switch {
	case o.For < bake:
		return Verdict{}
	case alone:
		return Verdict{RollBack, "no canary pod has reported within " + canarySeen.String() + ": rolled back", bake}
	case p.refusesMore(o):
		return Verdict{RollBack, fmt.Sprintf("after %v of little traffic: %s: rolled back", bake, figures(o)), bake}
	}
	return onward(o, bake)
}

// enough reports whether there is evidence enough: of the candidate, and of a base
// that it is compared with.
func (p Policy) enough(o Observed) bool {
	return o.Counts.Candidate.Evaluated >= p.Evidence && (!compared(o) || o.Counts.Base.Evaluated >= p.Evidence)
}

// compared reports whether the candidate is compared with the version in force. In
// shadow it is not: there it meets only what that version has admitted, so that
// each of its refusals would be a new one.
func compared(o Observed) bool {
	return o.Base == BaseEnforced && o.Stage == rulesv1.Stage_STAGE_CANARY
}

// onward is the step to the next stage of a rollout that nothing speaks against.
func onward(o Observed, bake time.Duration) Verdict {
	switch {
	case o.Stage == rulesv1.Stage_STAGE_CANARY:
		return Verdict{Promote, fmt.Sprintf("after %v on canary pods: %s: promoted", bake, figures(o)), bake}
	case o.Canaries == 0:
		return Verdict{Promote, fmt.Sprintf("after %v of shadow: %s: promoted without canary pods, of which none has reported within %v", bake, figures(o), canarySeen), bake}
	}
	return Verdict{Canary, fmt.Sprintf("after %v of shadow: %s: on to canary pods", bake, figures(o)), bake}
}

// refusesMore reports whether callers would feel the candidate by more than the
// margin.
func (p Policy) refusesMore(o Observed) bool {
	base := 0.0
	if compared(o) {
		base = share(o.Counts.Base.Refused, o.Counts.Base.Evaluated)
	}
	return share(o.Counts.Candidate.Refused, o.Counts.Candidate.Evaluated) > base+p.Margin
}

func share(refused, evaluated int64) float64 {
	if evaluated == 0 {
		return 0
	}
	return float64(refused) / float64(evaluated)
}

// figures says in words what a rollout is judged by.
func figures(o Observed) string {
	candidate, base := o.Counts.Candidate, o.Counts.Base
	if candidate.Evaluated == 0 {
		return "no traffic was seen"
	}
	text := fmt.Sprintf("refused %d of %d requests", candidate.Refused, candidate.Evaluated)
	switch o.Base {
	case BaseEnforced:
		if !compared(o) {
			return text + " that the version in force has admitted"
		}
		return fmt.Sprintf("%s, the version in force %d of %d on other pods", text, base.Refused, base.Evaluated)
	case BaseShadow:
		return text + ", the version in force none, being in shadow mode"
	case BaseNone:
	}
	return text + ", where no rule is in force"
}
