package ruleset

import (
	"strings"
	"testing"
	"time"

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

// drawText draws what may stand in an item: no control characters.
func drawText(t *rapid.T, label string) string {
	return rapid.StringMatching(`[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]{0,20}`).Draw(t, label)
}

func drawRule(t *rapid.T) *rulesv1.Rule {
	rate := rapid.Float64Range(float64(limit.RateMin), float64(limit.RateMax)).Draw(t, "rate")
	return &rulesv1.Rule{
		Id: drawText(t, "id"), Version: rapid.Int64().Draw(t, "version"), Plan: drawText(t, "plan"),
		Scope: rapid.SampledFrom([]rulesv1.Scope{0, 1}).Draw(t, "scope"), Identity: rapid.SampledFrom([]rulesv1.Identity{0, 1, 2, 3}).Draw(t, "identity"),
		Algorithm: rapid.SampledFrom([]rulesv1.Algorithm{0, 1, 2, 3}).Draw(t, "algorithm"), Rate: &rate,
		Burst: proto.Int64(rapid.Int64().Draw(t, "burst")), FailMode: rapid.SampledFrom([]rulesv1.FailMode{0, 1, 2}).Draw(t, "fail"),
		Mode: rapid.SampledFrom([]rulesv1.Mode{0, 1, 2}).Draw(t, "mode"), Counts: rapid.SampledFrom([]rulesv1.Counts{0, 1, 2}).Draw(t, "counts"),
		Check: rapid.SampledFrom([]rulesv1.Check{0, 1, 2}).Draw(t, "check"), Limit: rapid.Ptr(rapid.Int64(), true).Draw(t, "limit"),
		Window: durationpb.New(time.Duration(rapid.Int64().Draw(t, "window"))),
	}
}

func drawOverride(t *rapid.T) *rulesv1.Override {
	const first, last = -62135596800, 253402300799 // 0001-01-01 and 9999-12-31, in seconds since 1970
	return &rulesv1.Override{
		Id: drawText(t, "id"), Key: drawText(t, "key"), Deny: rapid.Bool().Draw(t, "deny"), Reason: drawText(t, "reason"),
		ExpiresAt: &timestamppb.Timestamp{Seconds: rapid.Int64Range(first, last).Draw(t, "s"), Nanos: rapid.Int32Range(0, 999_999_999).Draw(t, "ns")},
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
		"two faults":          {`{"rate":10,"burst":"20","plan":"free"}`, []string{"rate is 10: want a text, as \"10/s\"", "burst is \"20\": want a whole number"}},
		"unknown field":       {`{"brust":20}`, []string{`ruleset: has an unknown field, "brust": want one of id, version, plan`}},
		"twice":               {`{"burst":20,"burst":21}`, []string{"burst: stands twice"}},
		"twice by an escape":  {`{"burst":20,"burs\u0074":21}`, []string{"burst: stands twice"}},
		"null":                {`{"plan":null}`, []string{"plan: has no value"}},
		"a fraction":          {`{"burst":20.5}`, []string{"burst is 20.5: want a whole number"}},
		"an exponent":         {`{"burst":2e1}`, []string{"burst is 2e1: want a whole number"}},
		"too large":           {`{"burst":9223372036854775808}`, []string{"burst is 9223372036854775808"}},
		"an enumeration":      {`{"algorithm":"leaky","mode":2}`, []string{`algorithm is "leaky": want token_bucket, fixed_window or sliding_log`, "mode is 2: want a text, a name"}},
		"an object":           {`{"plan":{"id":"free"}}`, []string{"plan: want a text"}},
		"a list":              {`[]`, []string{"ruleset: want an object with id"}},
		"nothing":             {``, []string{"is no JSON"}},
		"YAML":                {`id: free`, []string{"is no JSON"}},
		"two":                 {`{}{}`, []string{"is no JSON"}},
		"a lone comma":        {`{"burst":20,}`, []string{"is no JSON"}},
		"no UTF-8":            {"{\"id\":\"\xff\"}", []string{"is not UTF-8"}},
		"a control character": {`{"id":"a\u0000","plan":"\u001b"}`, []string{`id is "a\x00": has a control character 0x00: want text`, "plan is"}},
		"half a character":    {`{"id":"\ud83d\ude00\ud83d\u0041"}`, []string{"is no JSON: half of a surrogate pair"}},
		"the other half":      {`{"id":"\\ud83d\ude00"}`, []string{"is no JSON: half of a surrogate pair"}},
		"a half at the end":   {`{"id":"\ud83d"}`, []string{"is no JSON: half of a surrogate pair"}},
		"deep":                {`{"plan":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, []string{"is nested deeper than 16 levels"}},
		"long":                {strings.Repeat(" ", itemMax+1), []string{"at most 1048576 are allowed"}},
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

// Of a flood of faults as many are named as anybody reads.
func TestFaultsOfAnItemAreBounded(t *testing.T) {
	if n := len(ReadItem([]byte(`{"id":1`+strings.Repeat(`,"a":1`, 10_000)+`}`), &rulesv1.Plan{})); n != faultsShown {
		t.Errorf("%d faults, want %d", n, faultsShown)
	}
}

// Escapes mean what they mean in JSON, a text may stand for a list of it, fields that
// the text does not hold stay, and a list takes the place of another.
func TestItemIsReadAsJSON(t *testing.T) {
	r := &rulesv1.Route{Id: "kept", Match: []string{"/old"}, Version: 3}
	if faults := ReadItem([]byte(` {"match":"GET \/v1\/\u006cabels","cost":-0,"user_field":"\ud83d\ude00\\ud800\t"} `), r); len(faults) > 0 {
		t.Fatal(faults)
	}
	want := &rulesv1.Route{Id: "kept", Match: []string{"GET /v1/labels"}, Version: 3, Cost: proto.Int64(0), UserField: "\U0001f600\\ud800\t"}
	if diff := cmp.Diff(want, r, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +read):\n%s", diff)
	}
}

// An item is written in the words of a rule file and the order of the contract, with
// what the server has set.
func TestItemIsWrittenAsInAFile(t *testing.T) {
	rule := bucketRule("growth-global", 5.0/60, 200)
	rule.Version, rule.Scope, rule.Plan = 7, 0, "growth"
	for want, m := range map[string]proto.Message{
		`{"id":"growth-global","version":7,"plan":"growth","identity":"api_key","algorithm":"token_bucket","rate":"5/m","burst":200}`: rule,
		`{"id":"quota","limit":10,"window":"24h"}`:               &rulesv1.Rule{Id: "quota", Limit: proto.Int64(10), Window: durationpb.New(24 * time.Hour)},
		`{"id":"q","window":"1h30m"}`:                            &rulesv1.Rule{Id: "q", Window: durationpb.New(90 * time.Minute)},
		`{"id":"q","window":"10m0.5s"}`:                          &rulesv1.Rule{Id: "q", Window: durationpb.New(10*time.Minute + time.Second/2)},
		`{"id":"free","match":["/a","/b"],"cost":0,"version":2}`: &rulesv1.Route{Id: "free", Match: []string{"/a", "/b"}, Cost: proto.Int64(0), Version: 2},
		`{"rule":"r","key":"a & <b> \"c\"","deny":true,"starts_at":"2027-01-01T00:00:00.5Z","id":"o-1"}`: &rulesv1.Override{
			Rule: "r", Key: `a & <b> "c"`, Deny: true, StartsAt: timestamppb.New(time.Date(2027, 1, 1, 0, 0, 0, 5e8, time.UTC)), Id: "o-1",
		},
		`{"rule":{"id":"a"},"stage":"canary"}`: &rulesv1.Candidate{Rule: &rulesv1.Rule{Id: "a"}, Stage: rulesv1.Stage_STAGE_CANARY},
	} {
		if got := string(WriteItem(m)); got != want+"\n" {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// FuzzReadItem: no text makes the reader panic, and what it takes it writes in a
// form that it takes again.
func FuzzReadItem(f *testing.F) {
	f.Add([]byte(`{"id":"free-global","rate":"10/s","burst":20,"window":"24h"}`))
	f.Add([]byte(`{"match":["GET /v1/labels",""],"cost":1}`))
	f.Add([]byte(`{"rule":"x","key":"\ud83d\ude00","deny":true,"starts_at":"0000-01-01T00:00:00Z","expires_at":"2027-01-01T00:00:00+23:59"}`))
	f.Add([]byte(`{"rate":"0x1p3/s","window":"-5s"}`))
	f.Add([]byte(`{"window":"9999d2562047h"}`))
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
