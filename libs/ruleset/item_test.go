package ruleset

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/shiplane/limits/libs/limit"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// What is written is read back equal, whatever a rule or override holds.
func TestWrittenItemIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole proto.Message = drawRule(t)
		if rapid.Bool().Draw(t, "override") {
			whole = drawOverride(t)
		}
		text := WriteItem(whole)
		again := whole.ProtoReflect().New().Interface()
		if faults := ReadItem(text, again); len(faults) > 0 {
			t.Fatalf("%s: %v", text, faults)
		}
		if diff := cmp.Diff(whole, again, protocmp.Transform()); diff != "" {
			t.Fatalf("%s (-written +read):\n%s", text, diff)
		}
	})
}

func drawRule(t *rapid.T) *rulesv1.Rule {
	rate := rapid.Float64Range(float64(limit.RateMin), float64(limit.RateMax)).Draw(t, "rate")
	return &rulesv1.Rule{
		Id: rapid.String().Draw(t, "id"), Version: rapid.Int64().Draw(t, "version"), Plan: rapid.String().Draw(t, "plan"),
		Algorithm: rapid.SampledFrom([]rulesv1.Algorithm{0, 1, 2, 3}).Draw(t, "algorithm"), Rate: &rate,
		Burst: proto.Int64(rapid.Int64().Draw(t, "burst")), FailMode: rapid.SampledFrom([]rulesv1.FailMode{0, 1, 2}).Draw(t, "fail"),
		Window: durationpb.New(1e3 * limit.WindowMin / 1e3 * 7),
	}
}

func drawOverride(t *rapid.T) *rulesv1.Override {
	return &rulesv1.Override{
		Id: rapid.String().Draw(t, "id"), Key: rapid.String().Draw(t, "key"), Deny: rapid.Bool().Draw(t, "deny"), Reason: rapid.String().Draw(t, "reason"),
		ExpiresAt: &timestamppb.Timestamp{Seconds: rapid.Int64Range(0, 4e9).Draw(t, "s"), Nanos: rapid.Int32Range(0, 999_999_999).Draw(t, "ns")},
	}
}

// Every fault of form is named with its field, its value and what is wanted, and
// what has none is read all the same.
func TestFaultsOfAnItemAreNamed(t *testing.T) {
	const good = `{"id":"free-global","plan":"free","identity":"api_key","algorithm":"token_bucket","rate":"10/s","burst":20}`
	rule := &rulesv1.Rule{}
	if faults := ReadItem([]byte(good), rule); len(faults) > 0 || rule.GetRate() != 10 || rule.GetBurst() != 20 || rule.GetIdentity() != rulesv1.Identity_IDENTITY_API_KEY {
		t.Fatalf("got %v, %v", rule, faults)
	}
	for name, c := range map[string]struct {
		text   string
		faults []string
	}{
		"two faults":         {`{"rate":10,"burst":"20","plan":"free"}`, []string{"rate is 10: want a text, as \"10/s\"", "burst is \"20\": want a whole number"}},
		"unknown field":      {`{"brust":20}`, []string{`ruleset: has an unknown field, "brust": want one of id, version, plan`}},
		"twice":              {`{"burst":20,"burst":21}`, []string{"burst: stands twice"}},
		"twice by an escape": {`{"burst":20,"burs\u0074":21}`, []string{"burst: stands twice"}},
		"null":               {`{"plan":null}`, []string{"plan: has no value"}},
		"a fraction":         {`{"burst":20.5}`, []string{"burst is 20.5: want a whole number"}},
		"an exponent":        {`{"burst":2e1}`, []string{"burst is 2e1: want a whole number"}},
		"too large":          {`{"burst":9223372036854775808}`, []string{"burst is 9223372036854775808"}},
		"an enumeration":     {`{"algorithm":"leaky","mode":2}`, []string{`algorithm is "leaky": want token_bucket, fixed_window or sliding_log`, "mode is 2: want a text, a name"}},
		"an object":          {`{"plan":{"id":"free"}}`, []string{"plan: want a text"}},
		"a list":             {`[]`, []string{"ruleset: want an object with id"}},
		"nothing":            {``, []string{"is no JSON"}},
		"YAML":               {`id: free`, []string{"is no JSON"}},
		"two":                {`{}{}`, []string{"is no JSON"}},
		"a lone comma":       {`{"burst":20,}`, []string{"is no JSON"}},
		"no UTF-8":           {"{\"id\":\"\xff\"}", []string{"is not UTF-8"}},
		"deep":               {`{"plan":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, []string{"is nested deeper than 16 levels"}},
		"long":               {strings.Repeat(" ", itemMax+1), []string{"at most 1048576 are allowed"}},
	} {
		t.Run(name, func(t *testing.T) {
			read := &rulesv1.Rule{}
			faults := ReadItem([]byte(c.text), read)
			if len(faults) != len(c.faults) {
				t.Errorf("got %v", faults)
			}
			for i, want := range c.faults {
				if i < len(faults) && !strings.Contains(faults[i].String(), want) {
					t.Errorf("got %q, want %q", faults[i], want)
				}
			}
			if name == "two faults" && read.GetPlan() != "free" {
				t.Errorf("what has no fault was not read: %v", read)
			}
		})
	}
}

// FuzzReadItem: no text makes the reader panic, and what it takes it writes in a
// form that it takes again.
func FuzzReadItem(f *testing.F) {
	f.Add([]byte(`{"id":"free-global","rate":"10/s","burst":20,"window":"24h"}`))
	f.Add([]byte(`{"match":["GET /v1/labels",""],"cost":1}`))
	f.Add([]byte(`{"rule":"x","key":"\u0000\ud800","deny":true,"expires_at":"2026-11-27T00:00:00.5+02:00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range []proto.Message{&rulesv1.Rule{}, &rulesv1.Route{}, &rulesv1.Override{}, &rulesv1.Ruleset{}} {
			if len(ReadItem(text, m)) > 0 {
				continue
			}
			again := m.ProtoReflect().New().Interface()
			if faults := ReadItem(WriteItem(m), again); len(faults) > 0 || !proto.Equal(m, again) {
				t.Errorf("%q was written as %q, and that read as %v, %v", text, WriteItem(m), again, faults)
			}
		}
	})
}
