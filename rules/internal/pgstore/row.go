package pgstore

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Rows of what is in force. Their fields are columns, in JSON for writing and by
// their names for reading; nil is NULL.
type (
	planRow struct {
		Domain string `json:"domain"`
		PlanID string `json:"plan_id"`
	}
	routeRow struct {
		Domain    string   `json:"domain"`
		RouteID   string   `json:"route_id"`
		Match     []string `json:"match"`
		Cost      *int64   `json:"cost"`
		UserField string   `json:"user_field"`
		Version   int64    `json:"version"`
	}
	ruleRow struct {
		Domain     string   `json:"domain"`
		RuleID     string   `json:"rule_id"`
		MatchPlan  *string  `json:"match_plan"`
		MatchRoute *string  `json:"match_route"`
		Scope      *string  `json:"scope"`
		Identity   *string  `json:"identity"`
		Algorithm  *string  `json:"algorithm"`
		RatePerS   *float64 `json:"rate_per_s"`
		Burst      *int64   `json:"burst"`
		Limit      *int64   `json:"limit"`
		WindowS    *seconds `json:"window_s"`
		Mode       *string  `json:"mode"`
		FailMode   *string  `json:"fail_mode"`
		Counts     *string  `json:"counts"`
		Check      *string  `json:"check"`
		Version    int64    `json:"version"`
	}
	overrideRow struct {
		Domain     string     `json:"domain"`
		OverrideID string     `json:"override_id"`
		RuleID     string     `json:"rule_id"`
		Key        string     `json:"key"`
		RatePerS   *float64   `json:"rate_per_s"`
		Burst      *int64     `json:"burst"`
		Limit      *int64     `json:"limit"`
		WindowS    *seconds   `json:"window_s"`
		Deny       bool       `json:"deny"`
		StartsAt   *time.Time `json:"starts_at"`
		ExpiresAt  *time.Time `json:"expires_at"`
		Author     string     `json:"author"`
		Reason     string     `json:"reason"`
	}
)

// Columns of these rows.
const (
	planColumns     = `domain, plan_id`
	routeColumns    = `domain, route_id, match, cost, user_field, version`
	ruleColumns     = `domain, rule_id, match_plan, match_route, scope, identity, algorithm, rate_per_s, burst, "limit", window_s, mode, fail_mode, counts, "check", version`
	overrideColumns = `domain, override_id, rule_id, key, rate_per_s, burst, "limit", window_s, deny, starts_at, expires_at, author, reason`
)

// seconds is a length of time as an exact decimal number of seconds.
type seconds time.Duration

// MarshalJSON implements json.Marshaler: 3600, or 1500000000e-9.
func (s seconds) MarshalJSON() ([]byte, error) {
	if s%seconds(time.Second) == 0 {
		return strconv.AppendInt(nil, int64(s/seconds(time.Second)), 10), nil
	}
	return append(strconv.AppendInt(nil, int64(s), 10), "e-9"...), nil
}

// Scan implements sql.Scanner.
func (s *seconds) Scan(from any) error {
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("%w: a window of type %T", errDecode, from)
	}
	d, err := time.ParseDuration(text + "s")
	*s = seconds(d)
	return err
}

func secondsOf(d *durationpb.Duration) *seconds {
	if d == nil {
		return nil
	}
	s := seconds(d.AsDuration())
	return &s
}

func (s *seconds) proto() *durationpb.Duration {
	if s == nil {
		return nil
	}
	return durationpb.New(time.Duration(*s))
}

func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

func stampOf(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// said returns nil for a text that says nothing.
func said(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func planRowOf(domain string, p *rulesv1.Plan) planRow { return planRow{domain, p.GetId()} }

func (r planRow) proto() (*rulesv1.Plan, error) { return &rulesv1.Plan{Id: r.PlanID}, nil }

func routeRowOf(domain string, r *rulesv1.Route) routeRow {
	match := r.GetMatch()
	if match == nil {
		match = []string{} // not NULL: the constraint that says what is wanted shall refuse it
	}
	return routeRow{domain, r.GetId(), match, r.Cost, r.GetUserField(), r.GetVersion()}
}

func (r routeRow) proto() (*rulesv1.Route, error) {
	return &rulesv1.Route{Id: r.RouteID, Match: r.Match, Cost: r.Cost, UserField: r.UserField, Version: r.Version}, nil
}

func ruleRowOf(domain string, r *rulesv1.Rule) ruleRow {
	return ruleRow{
		Domain: domain, RuleID: r.GetId(), MatchPlan: said(r.GetPlan()), MatchRoute: said(r.GetRoute()), Scope: word(r.GetScope()),
		Identity: word(r.GetIdentity()), Algorithm: word(r.GetAlgorithm()), RatePerS: r.Rate, Burst: r.Burst, Limit: r.Limit,
		WindowS: secondsOf(r.GetWindow()), Mode: word(r.GetMode()), FailMode: word(r.GetFailMode()), Counts: word(r.GetCounts()),
		Check: word(r.GetCheck()), Version: r.GetVersion(),
	}
}

func (r ruleRow) proto() (*rulesv1.Rule, error) {
	scope, err1 := meaning[rulesv1.Scope](r.Scope)
	identity, err2 := meaning[rulesv1.Identity](r.Identity)
	algorithm, err3 := meaning[rulesv1.Algorithm](r.Algorithm)
	mode, err4 := meaning[rulesv1.Mode](r.Mode)
	failMode, err5 := meaning[rulesv1.FailMode](r.FailMode)
	counts, err6 := meaning[rulesv1.Counts](r.Counts)
	check, err7 := meaning[rulesv1.Check](r.Check)
	return &rulesv1.Rule{
		Id: r.RuleID, Version: r.Version, Plan: textOf(r.MatchPlan), Route: textOf(r.MatchRoute), Scope: scope, Identity: identity,
		Algorithm: algorithm, Rate: r.RatePerS, Burst: r.Burst, Limit: r.Limit, Window: r.WindowS.proto(),
		Mode: mode, FailMode: failMode, Counts: counts, Check: check,
	}, errors.Join(err1, err2, err3, err4, err5, err6, err7)
}

func overrideRowOf(domain string, o *rulesv1.Override) overrideRow {
	return overrideRow{
		Domain: domain, OverrideID: o.GetId(), RuleID: o.GetRule(), Key: o.GetKey(), RatePerS: o.Rate, Burst: o.Burst, Limit: o.Limit,
		WindowS: secondsOf(o.GetWindow()), Deny: o.GetDeny(), StartsAt: timeOf(o.GetStartsAt()), ExpiresAt: timeOf(o.GetExpiresAt()),
		Author: o.GetAuthor(), Reason: o.GetReason(),
	}
}

func (r overrideRow) proto() (*rulesv1.Override, error) {
	return &rulesv1.Override{
		Id: r.OverrideID, Rule: r.RuleID, Key: r.Key, Rate: r.RatePerS, Burst: r.Burst, Limit: r.Limit, Window: r.WindowS.proto(),
		Deny: r.Deny, StartsAt: stampOf(r.StartsAt), ExpiresAt: stampOf(r.ExpiresAt), Author: r.Author, Reason: r.Reason,
	}, nil
}
