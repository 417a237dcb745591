package convergence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const (
	rulesEdited = 20 // by turns
	editTimeout = 5 * time.Second
	editPause   = 50 * time.Millisecond // before an edit that failed is tried at another instance
)

// edit is a change that was acknowledged.
type edit struct {
	revision int64
	asked    time.Time // by the attempt that succeeded
}

// edit makes the number-th change: of one rule after another, through one instance
// after another. It tries until it knows that the change is made.
func (f *Fleet) edit(ctx context.Context, number int) (edit, error) {
	rule := editedRule(number)
	q := &rulesv1.PutRuleRequest{
		Domain: domain, Rule: rule, Rollout: rulesv1.RolloutMode_ROLLOUT_MODE_IMMEDIATE,
		Write: &rulesv1.Write{ExpectedVersion: proto.Int64(f.versions[rule.GetId()]), Why: "convergence"},
	}
	for attempt := 0; ; attempt++ {
		at, asked := f.instances[(number+attempt)%len(f.instances)], time.Now()
		answer, err := at.put(ctx, q)
		switch code := connect.CodeOf(err); {
		case err == nil:
			f.versions[rule.GetId()], f.rates[rule.GetId()] = answer.GetRule().GetVersion(), rule.GetRate()
			return edit{answer.GetRevision(), asked}, nil
		case code == connect.CodeAborted && attempt > 0: // the attempt before may have been committed
			return f.lookUp(ctx, at, rule)
		case code == connect.CodeCanceled && ctx.Err() == nil: // how connect tells of a connection that broke while it wrote
		case code != connect.CodeUnavailable && code != connect.CodeDeadlineExceeded:
			return edit{}, fmt.Errorf("edit %d: %w %v", number, err, violations(err))
		}
		select {
		case <-ctx.Done():
			return edit{}, fmt.Errorf("edit %d: %w: %w", number, ctx.Err(), err)
		case <-time.After(editPause):
		}
	}
}

// editedRule is the rule as the number-th change has it: its rate tells which.
func editedRule(number int) *rulesv1.Rule {
	rule := ruleOf(number % rulesEdited)
	rule.Rate = proto.Float64(float64(number + 1))
	return rule
}

// ruleOf is a rule for a route class that some rules share.
func ruleOf(number int) *rulesv1.Rule {
	return &rulesv1.Rule{
		Id: fmt.Sprintf("rule-%d", number), Route: routeOf(number).GetId(), Identity: rulesv1.Identity_IDENTITY_API_KEY,
		Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: proto.Float64(1), Burst: proto.Int64(1000),
	}
}

// rulesARoute is how many rules a request meets: 12 is the bound.
const rulesARoute = 10

func routeOf(rule int) *rulesv1.Route {
	id := fmt.Sprintf("route-%d", rule/rulesARoute)
	return &rulesv1.Route{Id: id, Match: []string{"GET /v1/" + id}}
}

// prepare makes the route classes of so many rules.
func (i *instance) prepare(ctx context.Context, rules int) error {
	for n := 0; n < rules; n += rulesARoute {
		_, err := i.rules.PutRoute(ctx, &rulesv1.PutRouteRequest{Domain: domain, Route: routeOf(n), Write: &rulesv1.Write{ExpectedVersion: proto.Int64(0)}})
		if err != nil {
			return err
		}
	}
	return nil
}

func (i *instance) put(ctx context.Context, q *rulesv1.PutRuleRequest) (*rulesv1.PutRuleResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	return i.rules.PutRule(ctx, q)
}

// lookUp takes a change for made whose answer was lost, if it is there. When it was
// asked for is not known then.
func (f *Fleet) lookUp(ctx context.Context, at *instance, rule *rulesv1.Rule) (edit, error) {
	there, err := at.rules.GetRule(ctx, &rulesv1.GetRuleRequest{Domain: domain, Id: rule.GetId()})
	if err != nil {
		return edit{}, err
	}
	if there.GetRule().GetRate() != rule.GetRate() {
		return edit{}, fmt.Errorf("rule %s has rate %v: want %v", rule.GetId(), there.GetRule().GetRate(), rule.GetRate())
	}
	f.versions[rule.GetId()], f.rates[rule.GetId()] = there.GetRule().GetVersion(), rule.GetRate()
	return edit{}, nil
}

// violations are what the service finds wrong with a change.
func violations(err error) []*rulesv1.Violation {
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return nil
	}
	for _, detail := range failure.Details() {
		if m, err := detail.Value(); err == nil {
			if problem, ok := m.(*rulesv1.Problem); ok {
				return problem.GetViolations()
			}
		}
	}
	return nil
}
