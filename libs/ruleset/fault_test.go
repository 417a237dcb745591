package ruleset

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/store"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected faults in testdata/faults")

// Every fault of a file is named at once, with line, column, path, value and
// what is allowed; and with a fault there is no ruleset.
func TestEveryFaultOfAFileIsNamedWhereItStands(t *testing.T) {
	inputs, err := filepath.Glob("testdata/faults/*.txt")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			set, faults := load(text, nil)
			if len(faults) == 0 || set != nil {
				t.Fatalf("ruleset %v, faults %v; want faults alone", set, faults)
			}
			golden := strings.TrimSuffix(input, ".txt") + ".want"
			got := faults.Error() + "\n"
			if *rewrite {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// What a file cannot say, a message can: it is checked all the same.
func TestEveryFaultOfAMessageIsNamed(t *testing.T) {
	rule := func(change func(r *rulesv1.Rule)) *rulesv1.Rule {
		r := &rulesv1.Rule{
			Id: "one", Scope: rulesv1.Scope_SCOPE_ALL, Identity: rulesv1.Identity_IDENTITY_IP,
			Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: proto.Float64(1), Burst: proto.Int64(2),
		}
		change(r)
		return r
	}
	override := func(change func(o *rulesv1.Override)) *rulesv1.Ruleset {
		o := &rulesv1.Override{Rule: "one", Key: "192.0.2.1", Burst: proto.Int64(3)}
		change(o)
		return &rulesv1.Ruleset{Domain: "d", Rules: []*rulesv1.Rule{rule(func(*rulesv1.Rule) {})}, Overrides: []*rulesv1.Override{o}}
	}
	one := func(change func(r *rulesv1.Rule)) *rulesv1.Ruleset {
		return &rulesv1.Ruleset{Domain: "d", Rules: []*rulesv1.Rule{rule(change)}}
	}
	for _, test := range []struct {
		name, want string
		set        *rulesv1.Ruleset
	}{
		{"nothing", `domain is "": ` + wantName, nil},
		{"revision", "revision is -1: want 0 or more", &rulesv1.Ruleset{Domain: "d", Revision: -1}},
		{"NaN", "rules[0].rate is NaN: rate of NaN tokens/s is out of range: want 1 a year to 10000000/s", one(func(r *rulesv1.Rule) { r.Rate = proto.Float64(math.NaN()) })},
		{"infinity", "rules[0].rate is +Inf: rate of +Inf tokens/s is out of range: want 1 a year to 10000000/s", one(func(r *rulesv1.Rule) { r.Rate = proto.Float64(math.Inf(1)) })},
		{"version", "rules[0].version is -1: want 0 or more", one(func(r *rulesv1.Rule) { r.Version = -1 })},
		{"algorithm", "rules[0].algorithm is 9: want token_bucket, fixed_window or sliding_log", one(func(r *rulesv1.Rule) { r.Algorithm = 9 })},
		{"identity", "rules[0].identity is 9: want api_key, ip or user", one(func(r *rulesv1.Rule) { r.Identity = 9 })},
		{"scope", "rules[0].scope is 9: want all, or nothing", one(func(r *rulesv1.Rule) { r.Scope = 9 })},
		{"mode", "rules[0].mode is 9: want enforce or shadow", one(func(r *rulesv1.Rule) { r.Mode = 9 })},
		{"fail mode", "rules[0].fail_mode is -1: want open or closed", one(func(r *rulesv1.Rule) { r.FailMode = -1 })},
		{"counts", "rules[0].counts: does not belong to a token_bucket, which counts cost: leave it out", one(func(r *rulesv1.Rule) { r.Counts = rulesv1.Counts_COUNTS_COST })},
		{"window", "rules[0].window is 2562047h47m16.854775807s: want 1s to 744h0m0s", one(func(r *rulesv1.Rule) {
			r.Algorithm, r.Rate, r.Burst, r.Limit = rulesv1.Algorithm_ALGORITHM_FIXED_WINDOW, nil, nil, proto.Int64(1)
			r.Window = &durationpb.Duration{Seconds: math.MaxInt64}
		})},
		{"nil rule", "rules[0].id is \"\"", &rulesv1.Ruleset{Domain: "d", Rules: []*rulesv1.Rule{nil}}},
		{"time", "overrides[0].starts_at: is no time from year 1 to 9999", override(func(o *rulesv1.Override) { o.StartsAt = &timestamppb.Timestamp{Seconds: math.MaxInt64} })},
		{"author", "has 129 bytes: at most 128 are allowed", override(func(o *rulesv1.Override) { o.Author = strings.Repeat("a", 129) })},
		{"reason", "has 1025 bytes: at most 1024 are allowed", override(func(o *rulesv1.Override) { o.Reason = strings.Repeat("a", 1025) })},
		{"plans", "plans: has 65 entries: at most 64 are allowed", &rulesv1.Ruleset{Domain: "d", Plans: make([]*rulesv1.Plan, 65)}},
		{"routes", "routes: has 513 entries: at most 512 are allowed", &rulesv1.Ruleset{Domain: "d", Routes: make([]*rulesv1.Route, 513)}},
		{"rules", "rules: has 4097 entries: at most 4096 are allowed", &rulesv1.Ruleset{Domain: "d", Rules: make([]*rulesv1.Rule, 4097)}},
		{"patterns", "routes[0].match: has 65 patterns: at most 64 are allowed", &rulesv1.Ruleset{Domain: "d", Routes: []*rulesv1.Route{{Id: "a", Match: make([]string, 65)}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, faults := Compile(test.set, nil)
			if set != nil || !strings.Contains(faults.Error(), test.want) {
				t.Errorf("ruleset %v, faults %v; want %q", set, faults, test.want)
			}
		})
	}
}

// A request asks a store for all rules of a subject at once: there are never
// more of them than a store takes.
func TestNoRequestMeetsMoreRulesThanAStoreTakes(t *testing.T) {
	text := "plans: [{id: free}]\nrules:\n"
	for i := range store.EntriesMax + 1 {
		match := []string{"plan: free", "scope: all"}[i%2]
		text += fmt.Sprintf("  - {id: r%d, %s, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 2}\n", i, match)
	}
	_, faults := load([]byte(text), nil)
	want := fmt.Sprintf(`%d:5: rules[%d]: a request of plan "free" and route "" would meet more than %[2]d rules for one ip`, store.EntriesMax+3, store.EntriesMax)
	if faults.Error() != want {
		t.Errorf("faults %q, want %q", faults.Error(), want)
	}
}

// A file of any size is refused by its size alone, in no time to speak of.
func TestHugeFileIsRefused(t *testing.T) {
	if _, _, faults := Parse(make([]byte, FileMax+1)); len(faults) != 1 || faults.Error() != "ruleset: has 1048577 bytes: at most 1048576 are allowed" {
		t.Errorf("faults %v", faults)
	}
}

// The error shows a hundred faults and the number of the others.
func TestFaultsErrorIsBounded(t *testing.T) {
	faults := make(Faults, 1000)
	for i := range faults {
		faults[i] = Fault{Path: fmt.Sprintf("rules[%d].id", i), Value: show(strings.Repeat("x", 1e6)), Problem: wantName}
	}
	text := faults.Error()
	if lines := strings.Count(text, "\n"); lines != 101 || len(text) > 100_000 || !strings.HasSuffix(text, "and 900 more") {
		t.Errorf("%d lines, %d bytes, ending in %q", lines, len(text), text[len(text)-20:])
	}
}

// A byte order mark, as some editors write it, and Windows line ends change nothing.
func TestByteOrderMarkAndLineEndsAreNoFault(t *testing.T) {
	text, err := os.ReadFile("testdata/public-api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := mustLoad(t, string(text))
	got := mustLoad(t, "\ufeff"+strings.ReplaceAll(string(text), "\n", "\r\n"))
	if !proto.Equal(want.whole(), got.whole()) {
		t.Error("another ruleset")
	}
}

// Durations take days, which are whole and 24 h long.
func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "24h": 24 * time.Hour} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("%s: %v, error %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1.5d", "-1d", "1 d", "1d1d", "99999999999d", "10001d", "1", "h"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}
