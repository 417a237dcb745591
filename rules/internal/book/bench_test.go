package book

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/memstore"
)

// BenchmarkWrite is what one write costs in the book, without a database, by how
// many overrides the domain has: that of an override the same among few and many.
func BenchmarkWrite(b *testing.B) {
	for _, overrides := range []int{10, 50_000} {
		set := seed()
		for i := range overrides - len(set.GetOverrides()) {
			set.Overrides = append(set.Overrides, &rulesv1.Override{Rule: "growth-global", Key: fmt.Sprintf("many_%d", i), Rate: proto.Float64(5), Reason: "r"})
		}
		book, err := Open(b.Context(), Config{Store: memstore.New(), Logger: quiet})
		if err != nil {
			b.Fatal(err)
		}
		if done, err := book.Import(b.Context(), "file", set); err != nil || !done {
			b.Fatal(done, err)
		}
		if err := book.snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
		dry := &rulesv1.Write{ExpectedVersion: proto.Int64(1), ValidateOnly: true}
		b.Run(fmt.Sprintf("override/of=%d", overrides), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o := &rulesv1.Override{Rule: "free-global", Key: "acct_x", Rate: proto.Float64(5), Reason: "r"}
				if _, err := book.CreateOverride(b.Context(), "ann", &rulesv1.CreateOverrideRequest{Override: o, Write: dry}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("rule/of=%d", overrides), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := book.PutRule(b.Context(), "ann", &rulesv1.PutRuleRequest{Rule: bucket("free-global", "free", 5, 20), Write: dry}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
