package limiter

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/store"
)

// errBudget is the cause of a decision that has waited for its budget and would have to
// wait on: nothing was asked for what is left of it. An ask that is on its way is not
// cut short, for others wait for its reply too, some of whom have just begun.
var errBudget = fmt.Errorf("%w: the decision has waited for all the time that it may", store.ErrTimeout)

// spent reports whether a decision that began then has waited for its budget.
func (c *Core) spent(now, began time.Duration) bool {
	return c.cfg.Budget > 0 && now-began >= c.cfg.Budget
}
