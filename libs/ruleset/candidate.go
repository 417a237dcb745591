package ruleset

import (
	"fmt"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// addCandidates checks the candidates and makes rules of them, which are counted
// as "<rule>@<version>". What is enforced of a rule and its candidate, and what
// only compared, is settled here: a pod enforces the candidate if it is a canary
// and the rollout has come so far, and the rule otherwise. The other one is in
// shadow.
func (b *builder) addCandidates() {
	seen := map[string]int{}
	for i, c := range b.set.GetCandidates() {
		path, r := fmt.Sprintf("candidates[%d]", i), c.GetRule()
		if limit.ValidateName("id", r.GetId()) != nil {
			b.fault(path+".rule.id", r.GetId(), wantName)
			continue
		}
		if first, twice := seen[r.GetId()]; twice {
			b.fault(path+".rule.id", r.GetId(), "has a candidate already, candidates[%d]", first)
			continue
		}
		seen[r.GetId()] = i
		if r.GetVersion() < 1 {
			b.fault(path+".rule.version", r.GetVersion(), "want 1 or more")
		}
		candidate := b.rule(path+".rule", r, limit.CandidateID(r.GetId(), r.GetVersion()))
		switch c.GetStage() {
		case rulesv1.Stage_STAGE_SHADOW:
			candidate.Mode = limit.Shadow
		case rulesv1.Stage_STAGE_CANARY:
			if base, ok := b.declared["rules/"+r.GetId()]; b.canary && ok {
				b.rules[base] = b.shadowed(b.rules[base])
			} else if !b.canary {
				candidate.Mode = limit.Shadow
			}
		default:
			b.fault(path+".stage", c.GetStage(), "want STAGE_SHADOW or STAGE_CANARY")
		}
		b.rules = append(b.rules, b.again(candidate))
	}
	for _, rule := range b.rules {
		b.next.met(rule)
	}
}

// shadowed returns a rule as it is while its candidate is enforced.
func (b *builder) shadowed(rule *limit.Rule) *limit.Rule {
	other := *rule
	other.Mode = limit.Shadow
	return b.again(&other)
}

// pathOfRule is where the i-th of the rules that count stands in the source.
func (b *builder) pathOfRule(i int) string {
	if n := len(b.set.GetRules()); i >= n {
		return fmt.Sprintf("candidates[%d]", i-n)
	}
	return fmt.Sprintf("rules[%d]", i)
}

// met notes under which id a rule counts.
func (s *Ruleset) met(rule *limit.Rule) {
	c := s.byID[rule.Name()]
	if rule.Name() == rule.ID {
		c.rule = rule
	} else {
		c.candidate = rule
	}
	s.byID[rule.Name()] = c
}
