package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/limit"
)

// bad is a body that must not be in force, and what is wrong with it: "field:
// part of the problem", all of it.
type bad struct {
	name, target, body string
	want               []string
}

const (
	bucketRule = `"identity":"api_key","algorithm":"token_bucket","rate":"10/s","burst":20`
	windowRule = `"plan":"free","identity":"api_key","algorithm":"fixed_window"`
	logRule    = `"route":"login","identity":"user","algorithm":"sliding_log"`
	bucketAmid = `"plan":"free","identity":"api_key","algorithm":"token_bucket"`
)

var badRules = []bad{
	{"rate zero", "", `{` + bucketAmid + `,"rate":"0/s","burst":20}`, []string{"rule.rate: out of range"}},
	{"rate negative", "", `{` + bucketAmid + `,"rate":"-1/s","burst":20}`, []string{"rule.rate: out of range"}},
	{"rate without unit", "", `{` + bucketAmid + `,"rate":"10","burst":20}`, []string{"rule.rate: want a number and a unit"}},
	{"rate a number", "", `{` + bucketAmid + `,"rate":10,"burst":20}`, []string{"rule.rate: want"}},
	{"rate not a number", "", `{` + bucketAmid + `,"rate":"NaN/s","burst":20}`, []string{"rule.rate: out of range"}},
	{"rate infinite", "", `{` + bucketAmid + `,"rate":"Inf/s","burst":20}`, []string{"rule.rate: out of range"}},
	{"rate above all", "", `{` + bucketAmid + `,"rate":"10000001/s","burst":20}`, []string{"rule.rate: out of range"}},
	{"rate missing", "", `{` + bucketAmid + `,"burst":20}`, []string{"rule.rate: is missing"}},
	{"burst zero", "", `{` + bucketAmid + `,"rate":"1/s","burst":0}`, []string{"rule.burst: want 1 to 1000000000"}},
	{"burst above all", "", `{` + bucketAmid + `,"rate":"1/s","burst":1000000001}`, []string{"rule.burst: want 1 to 1000000000"}},
	{"burst below the largest cost", "", `{"plan":"free","identity":"api_key","algorithm":"token_bucket","rate":"1/s","burst":9}`, []string{"rule.burst: want 10 or more"}},
	{"burst beyond 64 bits", "", `{` + bucketAmid + `,"rate":"1/s","burst":99999999999999999999}`, []string{"rule.burst: want a whole number"}},
	{"burst a fraction", "", `{` + bucketAmid + `,"rate":"1/s","burst":20.5}`, []string{"rule.burst: want a whole number"}},
	{"burst an exponent", "", `{` + bucketAmid + `,"rate":"1/s","burst":2e1}`, []string{"rule.burst: want a whole number"}},
	{"burst a text", "", `{` + bucketAmid + `,"rate":"1/s","burst":"20"}`, []string{"rule.burst: want a whole number"}},
	{"burst null", "", `{` + bucketAmid + `,"rate":"1/s","burst":null}`, []string{"rule.burst: has no value"}},
	{"no match", "", `{` + bucketRule + `}`, []string{"rule.scope: is missing"}},
	{"match of all and one", "", `{"plan":"free","scope":"all",` + bucketRule + `}`, []string{"rule.scope: want none"}},
	{"unknown plan", "", `{"plan":"none",` + bucketRule + `}`, []string{"rule.plan: want the id of one of the plans"}},
	{"unknown route", "", `{"route":"none",` + bucketRule + `}`, []string{"rule.route: want the id of one of the routes"}},
	{"unknown identity", "", `{"plan":"free","identity":"vip","algorithm":"token_bucket","rate":"1/s","burst":20}`, []string{"rule.identity: want api_key, ip or user"}},
	{"no identity", "", `{"plan":"free","algorithm":"token_bucket","rate":"1/s","burst":20}`, []string{"rule.identity: is missing"}},
	{"no algorithm", "", `{"plan":"free","identity":"api_key"}`, []string{"rule.algorithm: is missing"}},
	{"empty", "", `{}`, []string{"rule.identity: is missing", "rule.algorithm: is missing", "rule.scope: is missing"}},
	{"limit zero", "", `{` + windowRule + `,"limit":0,"window":"1m"}`, []string{"rule.limit: want 1 to 1000000000000"}},
	{"limit above all", "", `{` + windowRule + `,"limit":1000000000001,"window":"1m"}`, []string{"rule.limit: want 1 to 1000000000000"}},
	{"log too long", "", `{` + logRule + `,"limit":1001,"window":"1m"}`, []string{"rule.limit: want 1 to 1000"}},
	{"window too short", "", `{` + windowRule + `,"limit":10,"window":"999ms"}`, []string{"rule.window: want 1s to"}},
	{"window too long", "", `{` + windowRule + `,"limit":10,"window":"32d"}`, []string{"rule.window: want 1s to"}},
	{"window no duration", "", `{` + windowRule + `,"limit":10,"window":"soon"}`, []string{"rule.window: want a duration"}},
	{"window missing", "", `{` + windowRule + `,"limit":10}`, []string{"rule.window: is missing"}},
	{"rate of a window", "", `{` + windowRule + `,"limit":10,"window":"1m","rate":"1/s"}`, []string{"rule.rate: does not belong"}},
	{"counts of a bucket", "", `{"plan":"free",` + bucketRule + `,"counts":"cost"}`, []string{"rule.counts: does not belong"}},
	{"closed and after", "", `{"plan":"free",` + bucketRule + `,"check":"after","fail_mode":"closed"}`, []string{"rule.check: contradicts"}},
	{"user of no route", "", `{"plan":"free","route":"labels","identity":"user","algorithm":"sliding_log","limit":5,"window":"1m"}`, []string{"rule.identity: can never match"}},
	{"unknown field", "", `{"plan":"free",` + bucketRule + `,"brust":20}`, []string{"rule: unknown field"}},
	{"field of a proto", "", `{"plan":"free",` + bucketRule + `,"failMode":"open"}`, []string{"rule: unknown field"}},
	{"field twice", "", `{"plan":"free",` + bucketRule + `,"burst":30}`, []string{"rule.burst: twice"}},
	{"another id than the path's", "", `{"id":"other","plan":"free",` + bucketRule + `}`, []string{`rule.id: want "x", as in the path`}},
	{"everything at once", "", `{"plan":"none","identity":"vip","algorithm":"token_bucket","rate":"0/s","burst":0,"mode":"on","brust":1}`, []string{
		"rule: unknown field", "rule.identity: want api_key", "rule.rate: out of range", "rule.mode: want enforce or shadow", "rule.plan: want the id", "rule.burst: want 1 to",
	}},
	{"SQL as an id", "PUT /v1/rules/" + url.PathEscape(`x'; DROP TABLE rules; --`), `{"plan":"free",` + bucketRule + `}`, []string{"rule.id: want 1 to 64"}},
	{"SQL as a plan", "", `{"plan":"'; DROP TABLE rules; --",` + bucketRule + `}`, []string{"rule.plan: want the id"}},
	{"id of 1 KB", "PUT /v1/rules/" + strings.Repeat("a", 1024), `{"plan":"free",` + bucketRule + `}`, []string{"rule.id: want 1 to 64"}},
	{"id with a slash", "PUT /v1/rules/a%2Fb", `{"plan":"free",` + bucketRule + `}`, []string{"rule.id: want 1 to 64"}},
	{"id with a colon", "PUT /v1/rules/x%3Ashadow", `{"plan":"free",` + bucketRule + `}`, []string{"rule.id: want 1 to 64"}},

	{"route without match", "PUT /v1/routes/x", `{"cost":1}`, []string{"route.match: is missing"}},
	{"route that conflicts", "PUT /v1/routes/x", `{"match":"GET /v1/labels"}`, []string{"route.match[0]: conflicts"}},
	{"route of no pattern", "PUT /v1/routes/x", `{"match":["GET"]}`, []string{"route.match[0]: "}},
	{"cost too high", "PUT /v1/routes/x", `{"match":"GET /x","cost":1000001}`, []string{"route.cost: want 0 to 1000000"}},
	{"cost above a rule's burst", "PUT /v1/routes/labels", `{"match":"GET /v1/labels","cost":201}`, []string{"growth-global"}},
	{"65 patterns", "PUT /v1/routes/x", `{"match":[` + strings.Repeat(`"GET /x",`, 64) + `"GET /y"]}`, []string{"route.match: at most 64"}},

	{"plan of all without account", "POST /v1/plans", `{"id":"anonymous"}`, []string{"plan.id: "}},
	{"plan without id", "POST /v1/plans", `{}`, []string{"plan.id: want 1 to 64"}},

	{"override of no rule", "POST /v1/overrides", `{"rule":"none","key":"a","rate":"1/s","reason":"x"}`, []string{"override.rule: want the id"}},
	{"override of nobody", "POST /v1/overrides", `{"rule":"growth-global","rate":"1/s","reason":"x"}`, []string{"override.key: "}},
	{"override of nothing", "POST /v1/overrides", `{"rule":"growth-global","key":"a","reason":"x"}`, []string{"override: changes nothing"}},
	{"override below the largest cost", "POST /v1/overrides", `{"rule":"growth-global","key":"a","burst":5,"reason":"x"}`, []string{"override.burst: want 10 or more"}},
	{"ban with a limit", "POST /v1/overrides", `{"rule":"growth-global","key":"a","burst":50,"deny":true,"reason":"x"}`, []string{"override.deny: "}},
	{"override that ends before it starts", "POST /v1/overrides", `{"rule":"growth-global","key":"a","burst":50,"starts_at":"2026-12-02T00:00:00Z","expires_at":"2026-12-01T00:00:00Z","reason":"x"}`, []string{"override.expires_at: want a time after"}},
	{"override without a reason", "POST /v1/overrides", `{"rule":"growth-global","key":"a","burst":50}`, []string{"override.reason: is missing"}},
	{"no time", "POST /v1/overrides", `{"rule":"growth-global","key":"a","burst":50,"expires_at":"tomorrow","reason":"x"}`, []string{"override.expires_at: want a time"}},
	{"a long reason", "POST /v1/overrides", `{"rule":"growth-global","key":"a","burst":50,"reason":"` + strings.Repeat("a", 1025) + `"}`, []string{"override.reason: at most 1024"}},
}

// What would hurt is refused with 422, and everything that is wrong with it is
// named at once.
func TestEveryFaultIsNamed(t *testing.T) {
	a := open(t, editor)
	for _, c := range badRules {
		t.Run(c.name, func(t *testing.T) {
			method, path, _ := strings.Cut(c.target, " ")
			if c.target == "" {
				method, path = http.MethodPut, "/v1/rules/x"
			}
			var fields []string
			switch {
			case strings.HasSuffix(path, "/labels"):
				fields = []string{`If-Match: "1"`}
			case method == http.MethodPut:
				fields = []string{"If-None-Match: *"}
			}
			got := a.want(t, http.StatusUnprocessableEntity, method, path, c.body, fields...)
			p := got.problem(t)
			if p.Code != codeInvalidRule {
				t.Errorf("code %s", p.Code)
			}
			for _, w := range c.want {
				field, part, exact := strings.Cut(w, ": ")
				if !slices.ContainsFunc(p.Violations, func(v violation) bool {
					return exact && v.Field == field && strings.Contains(v.Problem, part) || !exact && strings.Contains(v.Field, w)
				}) {
					t.Errorf("want %q", w)
				}
			}
			if len(p.Violations) != len(c.want) || t.Failed() {
				t.Errorf("%d faults: %s", len(p.Violations), got.text)
			}
			for _, v := range p.Violations {
				if len(v.Value) > 200 {
					t.Errorf("a value is repeated at length: %s", v.Value)
				}
			}
		})
	}
}

// Two rules whose counters would be one are not both taken.
func TestTagCollisionIsRefused(t *testing.T) {
	const first, second = "r522789", "r739192" // found by trying
	if limit.TagOf("public-api", first, limit.TokenBucket) != limit.TagOf("public-api", second, limit.TokenBucket) {
		t.Fatal("the tags differ")
	}
	a := open(t, editor)
	a.want(t, 201, "PUT", "/v1/rules/"+first+"?rollout=immediate", growthGlobal, "If-None-Match: *")
	got := a.want(t, 422, "PUT", "/v1/rules/"+second+"?rollout=immediate", growthGlobal, "If-None-Match: *")
	if p := got.problem(t); len(p.Violations) != 1 || p.Violations[0].Field != "rule.id" || !strings.Contains(p.Violations[0].Problem, "hash") {
		t.Errorf("%s", got.text)
	}
}

// A body that cannot be read is refused with what can.
func TestUnreadableBodiesAreRefused(t *testing.T) {
	a := open(t, editor)
	create := "If-None-Match: *"
	good := `{"plan":"free",` + bucketRule + `}`
	for name, c := range map[string]struct {
		status int
		body   string
		fields []string
	}{
		"nothing":            {415, "", nil},
		"nothing, said JSON": {400, "", []string{"Content-Type: application/json"}},
		"half":               {400, `{"plan":"free"`, nil},
		"an array":           {400, "[]", nil},
		"a text":             {400, ` "rule"`, nil},
		"null":               {400, "null", nil},
		"two":                {400, good + good, nil},
		"a comment":          {400, "// x\n" + good, nil},
		"YAML":               {400, "plan: free", nil},
		"not UTF-8":          {400, "{\"plan\":\"\xff\"}", nil},
		"deep":               {400, strings.Repeat("[", 30_000), nil},
		"too large":          {413, `{"plan":"` + strings.Repeat("a", bodyMax) + `"}`, nil},
		"far too large":      {413, strings.Repeat(" ", 4<<20), nil},
		"a form":             {415, good, []string{"Content-Type: application/x-www-form-urlencoded"}},
		"another charset":    {415, good, []string{"Content-Type: application/json; charset=latin1"}},
		"zipped":             {415, good, []string{"Content-Encoding: gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			fields := append(c.fields, create)
			got := a.do(t, http.MethodPut, "/v1/rules/x", c.body, fields...)
			if p := got.problem(t); got.status != c.status {
				t.Errorf("%+v, want %d", p, c.status)
			}
		})
	}
	a.want(t, 200, "PUT", "/v1/rules/x?validate_only=true", good, create, "Content-Type: Application/JSON; charset=UTF-8")
	a.want(t, 422, "PUT", "/v1/rules/x", `{"plan":"\u0000",`+bucketRule+`}`, create)
	long := a.want(t, 400, "PUT", "/v1/rules/x?why="+strings.Repeat("a", 1025), good, create)
	if p := long.problem(t); len(p.Violations) != 1 || p.Violations[0].Field != "why" {
		t.Errorf("%s", long.text)
	}
}

// FuzzBody: no body is a fault of ours, whatever it holds, and each is answered as
// documented.
func FuzzBody(f *testing.F) {
	for _, c := range badRules {
		target := c.target
		if target == "" {
			target = "PUT /v1/rules/x"
		}
		f.Add(target, []byte(c.body))
	}
	f.Add("PUT /v1/rules/x", []byte(growthGlobal))
	f.Add("POST /v1/tokens", []byte(`{"name":"x","role":"pod"}`))
	var a *api
	f.Fuzz(func(t *testing.T, target string, body []byte) {
		if a == nil {
			a = open(t, editor)
		}
		method, path, _ := strings.Cut(target, " ")
		if u, err := url.ParseRequestURI(path); err != nil || !strings.HasPrefix(u.EscapedPath(), "/v1/") || u.Query().Has("validate_only") || !slices.Contains([]string{"PUT", "POST"}, method) {
			t.Skip()
		}
		mark := "?"
		if strings.Contains(path, "?") {
			mark = "&"
		}
		got := a.do(t, method, path+mark+"validate_only=true", string(body), "Content-Type: application/json", "If-None-Match: *")
		if got.status >= 500 {
			t.Fatalf("%s %q: %d %s", target, body, got.status, got.text)
		}
	})
}
