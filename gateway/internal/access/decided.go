package access

import (
	"context"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
)

type visitKey struct{}

// decided is what became of a request, and by whom. It is kept as it is and put
// into words only where it is logged.
type decided struct {
	verdict         limit.Verdict // 0 if the limiter was not asked
	by              limit.DecidedBy
	other, otherBy  string // what was answered without the limiter
	rule            string // the one that refused first; "" if none did
	route, plan     string
	account, client limit.Subject
	shadowed        bool
}

// Decided notes what the limiter said of the request that ctx is of. If it is
// shadowed, a refusal refused nothing.
func Decided(ctx context.Context, d *limit.Decision, route *ruleset.Route, caller *ruleset.Caller, shadowed bool) {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return
	}
	v.verdict, v.by, v.shadowed = d.Verdict, d.DecidedBy, shadowed
	v.route, v.plan, v.account, v.client = route.ID, caller.Plan, caller.Account, caller.IP
	if d.Refused >= 0 && d.Refused < len(d.Outcomes) {
		v.rule = d.Outcomes[d.Refused].Rule.ID
	}
}

// Answered notes what became of a request without the limiter; verdict and by
// are those of package meter.
func Answered(ctx context.Context, verdict, by string) {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		v.other, v.otherBy = verdict, by
	}
}

func (d *decided) refused() bool {
	if d.other != "" {
		return d.other != limit.Allowed.String()
	}
	return d.verdict != 0 && d.verdict != limit.Allowed
}

func (d *decided) verdictText() string {
	switch {
	case d.other != "":
		return d.other
	case d.verdict != 0:
		return d.verdict.String()
	}
	return "none"
}

func (d *decided) byText() string {
	switch {
	case d.other != "":
		return d.otherBy
	case d.verdict != 0:
		return d.by.String()
	}
	return "none"
}
