package failover

import (
	"fmt"
	"math/rand/v2"

	"github.com/shiplane/limits/libs/limit"
)

const (
	// editScaleMost bounds a limit's edit: a quarter to four times what it was.
	editScaleMost = 4.0
	// newRules is how many rules of each kind come and go. What is counted by rule
	// is kept until a gateway ends, and must not look like a leak.
	newRules = 50
)

// editor edits the rules of a fleet at random.
type editor struct {
	fleet   *Fleet
	scale   float64
	version int64
	by      map[string]int // edits, by what they did
}

func newEditor(f *Fleet, scale float64) *editor {
	return &editor{fleet: f, scale: scale, version: 1, by: map[string]int{}}
}

// edit gives a kind of traffic another limit, and once in a while more: it is in
// shadow, counted after, banned, or under a rule that is new, or was away for long.
// The next edit of the kind ends that.
func (e *editor) edit() {
	e.version++
	kind := Kinds[rand.IntN(len(Kinds))]
	by := 1/editScaleMost + rand.Float64()*(editScaleMost-1/editScaleMost)
	kind.Limit.Rate *= limit.Rate(e.scale * by)
	kind.Limit.Burst = max(kind.Cost, int64(float64(kind.Limit.Burst)*e.scale*by))
	next := ruling{rule: ruleOf(kind, e.version)}
	did := "limit"
	switch rand.IntN(10) {
	case 0:
		did, next.rule.Mode = "shadow", limit.Shadow
	case 1:
		did, next.rule.Check = "after", limit.CheckAfter
	case 2:
		did, next.banned = "ban", true
	case 3:
		did, next.rule.ID = "new rule", fmt.Sprint(kind.Name, "-", e.version%newRules)
		next.rule.Tag = limit.TagOf(domain, next.rule.ID, next.rule.Algorithm)
	}
	e.by[did]++
	e.fleet.edit(kind.Name, next)
}
