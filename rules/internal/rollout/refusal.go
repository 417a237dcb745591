package rollout

import (
	"fmt"
	"strings"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// base tells what a rollout is to replace; ok is false if the book is elsewhere
// than the rollout, a moment behind or ahead.
func (g *Guard) base(r ledger.Rollout) (base Base, ok bool) {
	rule := g.book.InForce(r.Domain, r.Rule.GetId())
	switch {
	case rule.GetVersion() != r.BaseVersion:
		return 0, false
	case rule == nil:
		return BaseNone, true
	case rule.GetMode() == rulesv1.Mode_MODE_SHADOW:
		return BaseShadow, true
	}
	return BaseEnforced, true
}

// refusals names the pods that could not take a rollout's candidate, and why: of
// canary pods if there are any, else of all.
func refusals(r ledger.Rollout, pods []*rulesv1.PodStatus, canaries bool) []string {
	var said []string
	for _, p := range pods {
		if canaries && !p.GetCanary() {
			continue
		}
		for _, fault := range p.GetFaults() {
			if !names(fault, r.Rule.GetId()) {
				continue
			}
			if len(said) == refusalsShown {
				return append(said, "and others")
			}
			said = append(said, fmt.Sprintf("pod %s (%s)", p.GetId(), shorten(fault)))
			break
		}
	}
	return said
}

// faultShown is how much of a pod's fault is repeated, in bytes.
const faultShown = 200

func shorten(text string) string {
	if len(text) <= faultShown {
		return text
	}
	return strings.ToValidUTF8(text[:faultShown], "") + "…"
}

// names reports whether a text names an id, and not one that it is a part of.
func names(text, id string) bool {
	for from := 0; ; {
		at := strings.Index(text[from:], id)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(id)
		if (at == 0 || !ofID(text[at-1])) && (end == len(text) || !ofID(text[end])) {
			return true
		}
		from = at + 1
	}
}

// ofID reports whether a character is one of ids. A dot is, too, but in texts of
// faults it stands between an id and a field.
func ofID(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}
