package rest

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// operation is one method of one path, and the call that it is.
type operation struct {
	method string
	path   string // with at most one {id}, as in "/v1/rules/{id}:shadow"
	id     string // what {id} is: a field of the request, or "rule.id" of its item
	body   string // the request's field that the body is; "." for the request itself, "" for no body
	shows  string // the answer's field that is the response; "" for the answer itself
	status int    // of success, unless the answer says more

	// current returns the version that the item has now, for conditions that do
	// not name exactly one; nil for items without versions.
	current func(ctx context.Context, domain, id string) (int64, error)

	request, answer protoreflect.MessageDescriptor
	parameters      []parameter
	create          func() proto.Message
	call            func(context.Context, proto.Message) (proto.Message, error)
}

// message is a pointer to a generated message.
type message[T any] interface {
	*T
	proto.Message
}

// on makes an operation of a call; o says the rest.
func on[Q, A any, PQ message[Q], PA message[A]](method, path string, call func(context.Context, PQ) (PA, error), o operation) operation {
	o.method, o.path = method, path
	o.request, o.answer = PQ(nil).ProtoReflect().Descriptor(), PA(nil).ProtoReflect().Descriptor()
	o.create = func() proto.Message { return PQ(new(Q)) }
	o.call = func(ctx context.Context, q proto.Message) (proto.Message, error) {
		a, err := call(ctx, q.(PQ))
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	if o.status == 0 {
		o.status = http.StatusOK
	}
	o.parameters = parametersOf(&o)
	return o
}

// operations is the whole API: what is served, and what the document describes.
func operations(s rulesv1.RulesServiceHandler) []operation {
	const created = http.StatusCreated
	rule, rollout, route := versionsOf(s)
	return []operation{
		on("GET", "/v1/rules", s.ListRules, operation{}),
		on("GET", "/v1/rules/{id}", s.GetRule, operation{id: "id", shows: "rule"}),
		on("PUT", "/v1/rules/{id}", s.PutRule, operation{id: "rule.id", body: "rule", current: rule}),
		on("DELETE", "/v1/rules/{id}", s.DeleteRule, operation{id: "id", current: rule}),
		on("GET", "/v1/rules/{id}/history", s.ListRuleHistory, operation{id: "id"}),
		on("POST", "/v1/rules/{id}:shadow", s.ShadowRule, operation{id: "id", current: rule}),
		on("POST", "/v1/rules/{id}:enforce", s.EnforceRule, operation{id: "id", current: rule}),
		on("POST", "/v1/rules/{id}:rollback", s.RollbackRule, operation{id: "id", current: rule}),
		on("POST", "/v1/rules/{id}:advance", s.AdvanceRollout, operation{id: "rule", current: rollout}),
		on("GET", "/v1/rollouts", s.ListRollouts, operation{}),
		on("GET", "/v1/routes", s.ListRoutes, operation{}),
		on("GET", "/v1/routes/{id}", s.GetRoute, operation{id: "id", shows: "route"}),
		on("PUT", "/v1/routes/{id}", s.PutRoute, operation{id: "route.id", body: "route", current: route}),
		on("DELETE", "/v1/routes/{id}", s.DeleteRoute, operation{id: "id", current: route}),
		on("GET", "/v1/plans", s.ListPlans, operation{}),
		on("POST", "/v1/plans", s.CreatePlan, operation{body: "plan", status: created}),
		on("DELETE", "/v1/plans/{id}", s.DeletePlan, operation{id: "id"}),
		on("GET", "/v1/overrides", s.ListOverrides, operation{}),
		on("POST", "/v1/overrides", s.CreateOverride, operation{body: "override", status: created}),
		on("GET", "/v1/overrides/{id}", s.GetOverride, operation{id: "id", shows: "override"}),
		on("DELETE", "/v1/overrides/{id}", s.DeleteOverride, operation{id: "id"}),
		on("GET", "/v1/audit", s.ListAudit, operation{}),
		on("GET", "/v1/pods", s.ListPods, operation{}),
		on("GET", "/v1/tokens", s.ListTokens, operation{}),
		on("POST", "/v1/tokens", s.CreateToken, operation{body: ".", status: created}),
		on("POST", "/v1/tokens/{id}:revoke", s.RevokeToken, operation{id: "id"}),
	}
}

// versionsOf returns how to learn the version that a rule, a rollout and a route
// class has.
func versionsOf(s rulesv1.RulesServiceHandler) (rule, rollout, route func(ctx context.Context, domain, id string) (int64, error)) {
	rule = func(ctx context.Context, domain, id string) (int64, error) {
		a, err := s.GetRule(ctx, &rulesv1.GetRuleRequest{Domain: domain, Id: id})
		return versionOf(a), err
	}
	rollout = func(ctx context.Context, domain, id string) (int64, error) {
		a, err := s.GetRule(ctx, &rulesv1.GetRuleRequest{Domain: domain, Id: id})
		return a.GetRollout().GetRule().GetVersion(), err
	}
	route = func(ctx context.Context, domain, id string) (int64, error) {
		a, err := s.GetRoute(ctx, &rulesv1.GetRouteRequest{Domain: domain, Id: id})
		return versionOf(a), err
	}
	return rule, rollout, route
}
