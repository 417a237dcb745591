package httplimit

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files under testdata")

func rule(id string, edit ...func(*limit.Rule)) *limit.Rule {
	r := &limit.Rule{Domain: "public-api", ID: id, Kind: limit.Account, Algorithm: limit.TokenBucket, Mode: limit.Enforce}
	for _, e := range edit {
		e(r)
	}
	return r
}

func shadow(r *limit.Rule) { r.Mode = limit.Shadow }

func perSecond(rate float64, burst int64) limit.Limit {
	return limit.Limit{Rate: limit.Rate(rate), Burst: burst}
}

func per(window time.Duration, count int64) limit.Limit {
	return limit.Limit{Count: count, Window: window}
}

// scenarios are decisions as the limiter makes them; testdata holds what a caller
// sees of each.
var scenarios = []struct {
	name string
	d    limit.Decision
}{
	{"allowed: all rules with what is left, time to full rounded up", limit.Decision{
		Verdict: limit.Allowed, DecidedBy: limit.ByStore, Refused: -1,
		Outcomes: []limit.Outcome{
			{Rule: rule("growth-global"), Limit: perSecond(100, 200), Cost: 1, Known: true, Remaining: 141, Reset: 590 * time.Millisecond},
			{Rule: rule("labels-route"), Limit: perSecond(1000, 2000), Cost: 1, Known: true, Remaining: 1999, Reset: time.Millisecond},
			{Rule: rule("growth-daily"), Limit: per(24*time.Hour, 10000), Cost: 1, Known: true, Remaining: 9999, Reset: 12*time.Hour + time.Microsecond},
		},
	}},
	{"denied: the rule that refused first comes first, t is its wait", limit.Decision{
		Verdict: limit.Denied, DecidedBy: limit.ByStore, Refused: 1,
		Outcomes: []limit.Outcome{
			{Rule: rule("labels-route"), Limit: perSecond(1000, 2000), Cost: 1, Known: true, Remaining: 2000},
			{Rule: rule("free-global"), Limit: perSecond(10, 20), Cost: 1, Short: true, Known: true, Retry: 80 * time.Millisecond, Reset: 2 * time.Second},
		},
	}},
	{"denied by two: Retry-After is the longer wait", limit.Decision{
		Verdict: limit.Denied, DecidedBy: limit.ByKnowledge, Refused: 0,
		Outcomes: []limit.Outcome{
			{Rule: rule("free-global"), Limit: perSecond(10, 20), Cost: 1, Short: true, Known: true, Retry: 80 * time.Millisecond, Reset: 2 * time.Second},
			{Rule: rule("free-daily"), Limit: per(24*time.Hour, 10000), Cost: 1, Short: true, Known: true, Retry: time.Hour + time.Millisecond, Reset: time.Hour + time.Millisecond},
		},
	}},
	{"denied, shadow rules (short or not) do not show", limit.Decision{
		Verdict: limit.Denied, DecidedBy: limit.ByStore, Refused: 1,
		Outcomes: []limit.Outcome{
			{Rule: rule("trial", shadow), Limit: perSecond(1, 1), Cost: 1, Short: true, Known: true, Retry: time.Hour},
			{Rule: rule("login-ip"), Limit: per(time.Minute, 5), Cost: 1, Short: true, Known: true, Retry: time.Second, Reset: time.Minute},
		},
	}},
	{"a bulk call that has to wait: what is left and what it costs", limit.Decision{
		Verdict: limit.Denied, DecidedBy: limit.ByStore, Refused: 0,
		Outcomes: []limit.Outcome{
			{Rule: rule("bulk-route"), Limit: perSecond(10, 20), Cost: 10, Short: true, Known: true, Remaining: 4, Retry: 540 * time.Millisecond, Reset: 1540 * time.Millisecond},
		},
	}},
	{"cost above the limit: no Retry-After, no t, and the body says so", limit.Decision{
		Verdict: limit.Denied, DecidedBy: limit.ByStore, Refused: 0,
		Outcomes: []limit.Outcome{
			{Rule: rule("bulk-route"), Limit: perSecond(10, 5), Cost: 10, Short: true, Never: true, Known: true, Remaining: 5},
		},
	}},
	{"banned: policy only", limit.Decision{
		Verdict: limit.Denied, DecidedBy: limit.ByBan, Refused: 0,
		Outcomes: []limit.Outcome{
			{Rule: rule("growth-global"), Limit: perSecond(100, 200), Cost: 1, Short: true, Banned: true},
		},
	}},
	{"store timeout of a closed rule: policy, no state, try again in a second", limit.Decision{
		Verdict: limit.Unavailable, DecidedBy: limit.ByFailClosed, Refused: 0,
		Cause: fmt.Errorf("shard 7: %w", store.ErrTimeout),
		Outcomes: []limit.Outcome{
			{Rule: rule("login-ip"), Limit: per(time.Minute, 5), Cost: 1, Short: true},
		},
	}},
	{"store unavailable, an open rule beside the closed one", limit.Decision{
		Verdict: limit.Unavailable, DecidedBy: limit.ByFailClosed, Refused: 1,
		Cause: fmt.Errorf("shard 7: %w", store.ErrUnavailable),
		Outcomes: []limit.Outcome{
			{Rule: rule("anonymous-ip"), Limit: perSecond(5, 10), Cost: 1, Known: true, Remaining: 3, Reset: 1400 * time.Millisecond},
			{Rule: rule("login-ip"), Limit: per(time.Minute, 5), Cost: 1},
		},
	}},
	{"no rule: no fields", limit.Decision{Verdict: limit.Allowed, DecidedBy: limit.ByNoRule, Refused: -1}},
}

// TestResponsesAreAsSpecified: what a caller sees of each kind of decision,
// headers and body, is exactly what testdata/responses.golden shows.
func TestResponsesAreAsSpecified(t *testing.T) {
	var got bytes.Buffer
	for _, s := range scenarios {
		fields := Describe(&s.d, true)
		w := httptest.NewRecorder()
		fields.Set(w.Header())
		if s.d.Verdict != limit.Allowed {
			p := Refusal(&s.d)
			p.Write(w)
		}
		fmt.Fprintf(&got, "# %s\n%d\n", s.name, w.Code)
		if err := w.Result().Header.Write(&got); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "\n%s\n", w.Body)
	}
	golden := filepath.Join("testdata", "responses.golden")
	text := strings.ReplaceAll(got.String(), "\r\n", "\n")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("responses differ from %s (-want +got):\n%s", golden, diff)
	}
}

// TestWaitIsNeverRoundedDown: a caller that obeys whole seconds has always waited
// long enough, and is never told 0.
func TestWaitIsNeverRoundedDown(t *testing.T) {
	for _, retry := range []time.Duration{
		1, time.Microsecond, time.Millisecond, time.Second - 1, time.Second, time.Second + 1,
		59*time.Second + 999999999, time.Minute, 31 * 24 * time.Hour, 1<<63 - 1,
	} {
		d := limit.Decision{Verdict: limit.Denied, Refused: 0, Outcomes: []limit.Outcome{
			{Rule: rule("r"), Limit: perSecond(1, 1), Cost: 1, Short: true, Known: true, Retry: retry},
		}}
		f := Describe(&d, false)
		seconds, err := strconv.ParseInt(f.RetryAfter, 10, 64)
		if err != nil {
			t.Fatalf("retry %v: Retry-After %q: %v", retry, f.RetryAfter, err)
		}
		least := retry / time.Second
		if retry%time.Second > 0 {
			least++
		}
		if seconds < 1 || time.Duration(seconds) != max(least, 1) {
			t.Errorf("retry %v: Retry-After is %d s", retry, seconds)
		}
		if want := fmt.Sprintf(`"r";r=0;t=%d`, seconds); f.State != want {
			t.Errorf("retry %v: RateLimit is %s, want %s", retry, f.State, want)
		}
	}
}

// TestPolicyWindowIsWholeSeconds: w is burst ÷ rate rounded up, without an extra
// second from floating point, and stays an Integer of a structured field.
func TestPolicyWindowIsWholeSeconds(t *testing.T) {
	for _, c := range []struct {
		l    limit.Limit
		want string
	}{
		{perSecond(10, 20), `"r";q=20;w=2`},
		{perSecond(100, 250), `"r";q=250;w=3`},
		{perSecond(1000, 1), `"r";q=1;w=1`},
		{perSecond(5.0/60, 5), `"r";q=5;w=60`},
		{perSecond(7.0/60, 7), `"r";q=7;w=60`},
		{perSecond(1.0/86400, 1), `"r";q=1;w=86400`},
		{perSecond(float64(limit.RateMin), limit.BurstMax), `"r";q=1000000000;w=999999999999999`},
		{perSecond(float64(limit.RateMax), 1), `"r";q=1;w=1`},
		{per(1500*time.Millisecond, 5), `"r";q=5;w=2`},
		{per(limit.WindowMax, limit.CountMax), `"r";q=1000000000000;w=2678400`},
	} {
		d := limit.Decision{Verdict: limit.Allowed, Refused: -1, Outcomes: []limit.Outcome{{Rule: rule("r"), Limit: c.l}}}
		if got := Describe(&d, false).Policy; got != c.want {
			t.Errorf("%v: policy is %s, want %s", c.l, got, c.want)
		}
	}
}

// TestStringsAreEscaped: whatever a rule is called, its name stays inside the
// quotes of a structured field's String.
func TestStringsAreEscaped(t *testing.T) {
	for in, want := range map[string]string{
		"plain":      `"plain"`,
		`a"b\c`:      `"a\"b\\c"`,
		"a\r\nb\x00": `"a%0d%0ab%00"`,
		"é\x7f":      `"%c3%a9%7f"`,
		"":           `""`,
	} {
		if got := string(appendString(nil, in)); got != want {
			t.Errorf("%q is written %s, want %s", in, got, want)
		}
	}
}

// TestProblemIsWholeResponse: a problem is one JSON object with its length
// and type, whatever was set before.
func TestProblemIsWholeResponse(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Length", "7")
	p := NewProblem(http.StatusBadGateway, "upstream_unavailable", `it said "no" & <left>`)
	p.Write(w)
	if w.Code != http.StatusBadGateway || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s", w.Code, w.Header().Get("Content-Type"))
	}
	if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
		t.Errorf("Content-Length is %s, the body has %d bytes", got, w.Body.Len())
	}
	var back Problem
	if err := json.Unmarshal(w.Body.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Error(diff)
	}
}

// TestFieldsReplaceEarlierOnes: setting the fields leaves one value of each.
func TestFieldsReplaceEarlierOnes(t *testing.T) {
	h := http.Header{}
	h.Add("RateLimit", "x")
	h.Add("RateLimit", "y")
	f := Describe(&scenarios[0].d, false)
	f.Set(h)
	if diff := cmp.Diff(http.Header{policyField: {f.Policy}, stateField: {f.State}}, h); diff != "" {
		t.Error(diff)
	}
}

// TestFieldsAllocateLittle: their text is one allocation, their slice another.
func TestFieldsAllocateLittle(t *testing.T) {
	d := &scenarios[1].d
	h := http.Header{}
	if n := testing.AllocsPerRun(100, func() {
		f := Describe(d, true)
		f.Set(h)
	}); n > 2 {
		t.Errorf("%.0f allocations, want at most 2", n)
	}
}

func BenchmarkFields(b *testing.B) {
	d := &scenarios[0].d
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		f := Describe(d, false)
		f.Set(h)
	}
}
