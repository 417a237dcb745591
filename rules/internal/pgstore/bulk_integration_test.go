package pgstore_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
	"github.com/shiplane/limits/rules/internal/pgstore"
)

// The size that a ruleset may well have.
const (
	manyRules     = 1_000
	manyOverrides = 40_000
)

// imported is a first write of so much, or an edit of all its overrides.
func imported(version int64) (entries []*ledger.Entry) {
	for i := range manyRules {
		e := ruleEntry(func(r *rulesv1.Rule) { r.Id, r.Version = fmt.Sprintf("rule-%04d", i), version })
		entries = append(entries, e)
	}
	for i := range manyOverrides {
		entries = append(entries, overrideEntry(func(o *rulesv1.Override) {
			o.Id, o.Rule, o.Key = fmt.Sprintf("o-%06d", i), fmt.Sprintf("rule-%04d", i%manyRules), fmt.Sprintf("acct_%08d", i)
			o.Rate, o.Burst, o.Reason = proto.Float64(float64(version)+0.1), proto.Int64(1000+int64(i)), "launch week of a merchant"
			o.ExpiresAt = &timestamppb.Timestamp{Seconds: 1_900_000_000 + int64(i)}
		}))
	}
	return entries
}

// BenchmarkBulk is a ruleset of 40,000 overrides and 1,000 rules: written at once,
// read whole, read from the log, and one override added to it.
func BenchmarkBulk(b *testing.B) {
	server := envtest.Postgres(b, testenv.PostgresConfig{})
	s, err := pgstore.Open(pgstore.Config{URL: server.URL("postgres"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	ctx := context.Background()
	if err := s.Migrate(ctx); err != nil {
		b.Fatal(err)
	}
	version := int64(0)
	b.Run("Import", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			version++
			if _, err := write(ctx, s, imported(version)...); err != nil {
				b.Fatal(err)
			}
		}
	})
	if version == 0 {
		if _, err := write(ctx, s, imported(1)...); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Snapshot", func(b *testing.B) {
		b.ReportAllocs()
		var state *ledger.State
		for b.Loop() {
			if state, err = s.Snapshot(ctx); err != nil {
				b.Fatal(err)
			}
		}
		if set := state.Domains["public-api"]; len(set.GetOverrides()) < manyOverrides || len(set.GetRules()) != manyRules {
			b.Fatalf("%d overrides and %d rules", len(set.GetOverrides()), len(set.GetRules()))
		}
		b.ReportMetric(float64(proto.Size(state.Domains["public-api"])), "proto_bytes")
	})
	b.Run("Since", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if entries, err := s.Since(ctx, 0, 1); err != nil || len(entries) != manyRules+manyOverrides {
				b.Fatal(len(entries), err)
			}
		}
	})
	b.Run("OneMore", func(b *testing.B) {
		b.ReportAllocs()
		head, err := s.Head(ctx)
		if err != nil {
			b.Fatal(err)
		}
		for n := head; b.Loop(); n++ {
			e := overrideEntry(func(o *rulesv1.Override) { o.Id, o.Rule, o.Deny = fmt.Sprintf("x-%d", n), "rule-0000", true })
			if _, err := write(ctx, s, e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
