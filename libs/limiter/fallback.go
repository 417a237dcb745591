package limiter

import "github.com/shiplane/limits/libs/limit"

// fail decides a subject's charges by their rules' fail modes, for the store
// gave no answer: those that no lease pays for. The strictest wins: one closed
// rule makes the request unavailable. It reports whether the request may go on.
func fail(charges []limit.Charge, outcomes []limit.Outcome) (open bool) {
	open = true
	for i := range charges {
		c, o := &charges[i], &outcomes[i]
		if !enforced(c) || o.DecidedBy == limit.ByLease {
			continue
		}
		o.Known, o.DecidedBy = false, limit.ByFallback
		if c.Rule.FailMode == limit.FailClosed {
			o.DecidedBy, open = limit.ByFailClosed, false
		}
	}
	return open
}
