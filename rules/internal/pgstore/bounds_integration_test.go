package pgstore_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/testenv"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/pgstore"
)

func ruleEntry(edit func(*rulesv1.Rule)) *ledger.Entry {
	r := &rulesv1.Rule{
		Id: "r", Version: 1, Scope: rulesv1.Scope_SCOPE_ALL, Identity: rulesv1.Identity_IDENTITY_API_KEY,
		Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: proto.Float64(10), Burst: proto.Int64(20),
	}
	edit(r)
	return &ledger.Entry{Domain: "public-api", Version: r.GetVersion(), Change: &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: r}}}
}

func window(count int64, length time.Duration) func(*rulesv1.Rule) {
	return func(r *rulesv1.Rule) {
		r.Algorithm, r.Rate, r.Burst = rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW, nil, nil
		r.Limit, r.Window = &count, durationpb.New(length)
	}
}

func overrideEntry(edit func(*rulesv1.Override)) *ledger.Entry {
	o := &rulesv1.Override{Id: "o", Rule: "there", Key: "acct"}
	edit(o)
	return &ledger.Entry{Domain: "public-api", Change: &rulesv1.Change{Item: &rulesv1.Change_Override{Override: o}}}
}

func routeEntry(cost int64, match ...string) *ledger.Entry {
	return &ledger.Entry{Domain: "public-api", Version: 1, Change: &rulesv1.Change{Item: &rulesv1.Change_Route{Route: &rulesv1.Route{Id: "c", Version: 1, Match: match, Cost: &cost}}}}
}

// The database itself refuses what the service should have refused, and says which
// constraint; what lies on a bound it takes.
func TestDatabaseRefusesWhatIsOutOfBounds(t *testing.T) {
	d := start(t, testenv.PostgresConfig{})
	s := open(t, pgstore.Config{URL: d.fresh(t)})
	ctx := limited(t)
	there := ruleEntry(func(r *rulesv1.Rule) { r.Id = "there" })
	if _, err := write(ctx, s, there); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		constraint string // "" for none
		entry      *ledger.Entry
	}{
		{"", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(float64(limit.RateMin)) })},
		{"", ruleEntry(func(r *rulesv1.Rule) {
			r.Rate, r.Burst = proto.Float64(float64(limit.RateMax)), proto.Int64(limit.BurstMax)
		})},
		{"", ruleEntry(window(1, limit.WindowMin))},
		{"", ruleEntry(window(limit.CountMax, limit.WindowMax))},
		{"rate_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(0) })},
		{"rate_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(-1) })},
		{"rate_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(math.SmallestNonzeroFloat64) })},
		{"rate_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(float64(limit.RateMin) * 0.999) })},
		{"rate_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(1e7 + 1) })},
		{"rate_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Rate = proto.Float64(math.MaxFloat64) })},
		{"burst_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Burst = proto.Int64(0) })},
		{"burst_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Burst = proto.Int64(limit.BurstMax + 1) })},
		{"burst_bounds", ruleEntry(func(r *rulesv1.Rule) { r.Burst = proto.Int64(math.MinInt64) })},
		{"rules_limit", ruleEntry(func(r *rulesv1.Rule) { r.Rate = nil })},
		{"rules_limit", ruleEntry(func(r *rulesv1.Rule) { r.Limit = proto.Int64(1) })},
		{"rules_limit", ruleEntry(func(r *rulesv1.Rule) { r.Algorithm = rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW })},
		{"limit_bounds", ruleEntry(window(0, time.Hour))},
		{"limit_bounds", ruleEntry(window(limit.CountMax+1, time.Hour))},
		{"window_bounds", ruleEntry(window(1, limit.WindowMin-time.Microsecond))},
		{"window_bounds", ruleEntry(window(1, limit.WindowMax+time.Microsecond))},
		{"window_bounds", ruleEntry(window(1, time.Hour+time.Nanosecond))},
		{"window_bounds", ruleEntry(window(1, -1500*time.Millisecond))},
		{"rules_log_limit", ruleEntry(func(r *rulesv1.Rule) {
			window(limit.LogCountMax+1, time.Hour)(r)
			r.Algorithm = rulesv1.Algorithm_ALGORITHM_SLIDING_LOG
		})},
		{"rules_scope", ruleEntry(func(r *rulesv1.Rule) { r.Scope = rulesv1.Scope_SCOPE_UNSPECIFIED })},
		{"rules_scope", ruleEntry(func(r *rulesv1.Rule) { r.Plan, r.Identity = "anonymous", rulesv1.Identity_IDENTITY_IP })},
		{"rules_counts", ruleEntry(func(r *rulesv1.Rule) { r.Counts = rulesv1.Counts_COUNTS_COST })},
		{"rules_check", ruleEntry(func(r *rulesv1.Rule) {
			r.Check, r.FailMode = rulesv1.Check_CHECK_AFTER, rulesv1.FailMode_FAIL_MODE_CLOSED
		})},
		{"rules_anonymous", ruleEntry(func(r *rulesv1.Rule) { r.Scope, r.Plan = rulesv1.Scope_SCOPE_UNSPECIFIED, "anonymous" })},
		{"identity", ruleEntry(func(r *rulesv1.Rule) { r.Identity = 0 })},
		{"algorithm", ruleEntry(func(r *rulesv1.Rule) { r.Algorithm = 0 })},
		{"rules_plan", ruleEntry(func(r *rulesv1.Rule) { r.Scope, r.Plan = rulesv1.Scope_SCOPE_UNSPECIFIED, "gold" })},
		{"item_id_syntax", ruleEntry(func(r *rulesv1.Rule) { r.Scope, r.Route = rulesv1.Scope_SCOPE_UNSPECIFIED, "'; DROP TABLE rules; --" })},
		{"", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Key = true, strings.Repeat("k", 1024) })},
		{"overrides_key", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Key = true, strings.Repeat("k", 1025) })},
		{"overrides_key", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Key = true, "" })},
		{"overrides_deny", overrideEntry(func(*rulesv1.Override) {})},
		{"overrides_deny", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Burst = true, proto.Int64(1) })},
		{"rate_bounds", overrideEntry(func(o *rulesv1.Override) { o.Rate = proto.Float64(0) })},
		{"overrides_times", overrideEntry(func(o *rulesv1.Override) {
			o.Deny, o.StartsAt, o.ExpiresAt = true, timestamppb.New(time.Unix(100, 0)), timestamppb.New(time.Unix(100, 0))
		})},
		{"overrides_reason", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Reason = true, strings.Repeat("x", 1025) })},
		{"overrides_author", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Author = true, strings.Repeat("x", 129) })},
		{"overrides_rule", overrideEntry(func(o *rulesv1.Override) { o.Deny, o.Rule = true, "elsewhere" })},
		{"", routeEntry(limit.CostMax, "/a")},
		{"routes_cost", routeEntry(limit.CostMax+1, "/a")},
		{"routes_cost", routeEntry(-1, "/a")},
		{"routes_match", routeEntry(1)},
	} {
		ownID(c.entry.Change, i)
		head, err := s.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		revision, err := write(ctx, s, c.entry)
		if c.constraint == "" {
			if err != nil {
				t.Errorf("%v: %v", c.entry.Change, err)
			}
			continue
		}
		if !errors.Is(err, ledger.ErrRefused) || !strings.Contains(err.Error(), c.constraint) {
			t.Errorf("%v: %v, want %v by %s", c.entry.Change, err, ledger.ErrRefused, c.constraint)
		}
		if after, err := s.Head(ctx); err != nil || after != head {
			t.Fatalf("the head went from %d to %d (%d), %v", head, after, revision, err)
		}
	}
}

// ownID gives an item an id that none had before.
func ownID(c *rulesv1.Change, n int) {
	id := fmt.Sprintf("n%d", n)
	switch of := c.GetItem().(type) {
	case *rulesv1.Change_Rule:
		of.Rule.Id = id
	case *rulesv1.Change_Override:
		of.Override.Id = id
	case *rulesv1.Change_Route:
		of.Route.Id = id
	}
}
