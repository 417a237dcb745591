package rest

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const editor, viewer, adminRole = rulesv1.Role_ROLE_EDITOR, rulesv1.Role_ROLE_VIEWER, rulesv1.Role_ROLE_ADMIN

// What GET answers is what PUT takes, and the version is the entity tag: an edit
// is read, change, put back.
func TestEditIsReadChangePutBack(t *testing.T) {
	a := open(t, editor)
	got := a.want(t, 200, "GET", "/v1/rules/growth-global", "")
	if tag := got.header.Get("ETag"); tag != `"1"` {
		t.Errorf("ETag %s", tag)
	}
	a.want(t, 304, "GET", "/v1/rules/growth-global", "", `If-None-Match: W/"1"`)
	edited := strings.Replace(got.text, `"burst":200`, `"burst":300`, 1)
	put := a.want(t, 200, "PUT", "/v1/rules/growth-global?rollout=immediate&why=launch%20week", edited, "If-Match: "+got.header.Get("ETag"))
	if put.header.Get("ETag") != `"2"` || put.member(t, "rule.burst") != 300.0 || put.member(t, "rule.rate") != "100/s" {
		t.Errorf("ETag %s, %s", put.header.Get("ETag"), put.text)
	}
	a.want(t, 200, "GET", "/v1/rules/growth-global", "", `If-None-Match: "1"`)
	stale := a.want(t, 409, "PUT", "/v1/rules/growth-global", edited, `If-Match: "1"`)
	if p := stale.problem(t); p.Code != codeVersionConflict || *p.CurrentVersion != 2 || stale.header.Get("ETag") != `"2"` {
		t.Errorf("%s, ETag %s", stale.text, stale.header.Get("ETag"))
	}
	history := a.want(t, 200, "GET", "/v1/rules/growth-global/history?page_size=1", "")
	if !strings.Contains(history.text, `"why":"launch week"`) || history.member(t, "next_page_token") == "" {
		t.Errorf("history: %s", history.text)
	}
}

// Of 32 writers that read, change and put back at once exactly one wins each
// version; the others are told the version that it made, and no edit is lost.
func TestOneWriterWinsEachVersion(t *testing.T) {
	const writers = 32
	a := open(t, editor)
	a.doc = nil // thousands of answers of two kinds
	var wait sync.WaitGroup
	for range writers {
		wait.Go(func() {
			for {
				got := a.do(t, "GET", "/v1/rules/growth-global", "")
				burst, _ := got.member(t, "burst").(float64)
				edited := strings.Replace(growthGlobal, "200", strconv.Itoa(int(burst)+1), 1)
				put := a.do(t, "PUT", "/v1/rules/growth-global?rollout=immediate", edited, "If-Match: "+got.header.Get("ETag"))
				if put.status != http.StatusConflict {
					if put.status != http.StatusOK {
						t.Errorf("%d %s", put.status, put.text)
					}
					return
				}
				if put.header.Get("ETag") == got.header.Get("ETag") {
					t.Errorf("lost to version %s, told %s", got.header.Get("ETag"), put.text)
				}
			}
		})
	}
	wait.Wait()
	got := a.want(t, 200, "GET", "/v1/rules/growth-global", "")
	if got.member(t, "burst") != 200.0+writers || got.member(t, "version") != 1.0+writers {
		t.Errorf("%d edits: %s", writers, got.text)
	}
}

// A guarded edit is answered 202 with its rollout; until that is over the rule is
// what it was, says that an edit is on its way, and takes no other.
func TestGuardedEditIsOnItsWay(t *testing.T) {
	a := open(t, editor)
	put := a.want(t, 202, "PUT", "/v1/rules/growth-global", strings.Replace(growthGlobal, "200", "300", 1), `If-Match: "1"`)
	if put.header.Get("ETag") != `"2"` || put.member(t, "rollout.state") != "shadow" {
		t.Errorf("ETag %s, %s", put.header.Get("ETag"), put.text)
	}
	got := a.want(t, 200, "GET", "/v1/rules/growth-global", "")
	if got.header.Get("ETag") != `"1"` || got.member(t, "burst") != 200.0 {
		t.Errorf("ETag %s, %s", got.header.Get("ETag"), got.text)
	}
	link, _, _ := strings.Cut(strings.TrimPrefix(got.header.Get("Link"), "<"), ">")
	if rollouts := a.want(t, 200, "GET", link, ""); rollouts.member(t, "rollouts") == nil {
		t.Errorf("%s: %s", link, rollouts.text)
	}
	other := a.want(t, 409, "PUT", "/v1/rules/growth-global", growthGlobal, `If-Match: "1"`)
	if p := other.problem(t); p.Code != codeRollout {
		t.Errorf("%s", other.text)
	}
	advanced := a.want(t, 200, "POST", "/v1/rules/growth-global:advance?from=shadow&why=seen%20enough", "", `If-Match: "2"`)
	if advanced.member(t, "rollout.state") != "canary" {
		t.Errorf("%s", advanced.text)
	}
	a.want(t, 409, "POST", "/v1/rules/growth-global:advance?from=shadow", "", "If-Match: *")
	back := a.want(t, 200, "POST", "/v1/rules/growth-global:rollback", "", "If-Match: *")
	if back.member(t, "rollout.state") != "rolled_back" || back.header.Get("ETag") != `"1"` {
		t.Errorf("ETag %s, %s", back.header.Get("ETag"), back.text)
	}
	a.want(t, 202, "PUT", "/v1/rules/free-global", strings.Replace(growthGlobal, "growth", "free", 1), "If-None-Match: *")
	first := a.want(t, 404, "GET", "/v1/rules/free-global", "")
	if first.header.Get("Link") == "" || !strings.Contains(first.text, "first rollout") {
		t.Errorf("%s", first.text)
	}
}

// Every path is there, and does what the contract says of its call.
func TestEveryPathIsItsCall(t *testing.T) {
	a := open(t, editor)
	shadow := a.want(t, 200, "POST", "/v1/rules/growth-global:shadow?why=noise", "", "If-Match: *")
	if shadow.member(t, "rule.mode") != "shadow" || shadow.header.Get("ETag") != `"2"` {
		t.Errorf("%s", shadow.text)
	}
	enforced := a.want(t, 200, "POST", "/v1/rules/growth-global:enforce?rollout=immediate", "", `If-Match: "2"`)
	if enforced.member(t, "rule.mode") == "shadow" {
		t.Errorf("%s", enforced.text)
	}
	back := a.want(t, 200, "POST", "/v1/rules/growth-global:rollback?to_version=2", "", `If-Match: "3"`)
	if back.member(t, "rule.mode") != "shadow" || back.header.Get("ETag") != `"4"` {
		t.Errorf("%s", back.text)
	}
	a.want(t, 202, "POST", "/v1/rules/growth-global:enforce?rollout=guarded", "", "If-Match: *")
	if active := a.want(t, 200, "GET", "/v1/rollouts?active=true", ""); !strings.Contains(active.text, `"shadow"`) {
		t.Errorf("%s", active.text)
	}
	a.want(t, 404, "POST", "/v1/rules/none:shadow", "", "If-Match: *")

	route := a.want(t, 200, "GET", "/v1/routes/bulk", "")
	costly := a.want(t, 200, "PUT", "/v1/routes/bulk", strings.Replace(route.text, `"cost":10`, `"cost":20`, 1), "If-Match: "+route.header.Get("ETag"))
	if costly.member(t, "route.cost") != 20.0 || costly.header.Get("ETag") != `"2"` {
		t.Errorf("%s", costly.text)
	}
	if list := a.want(t, 200, "GET", "/v1/routes?page_size=2", ""); list.member(t, "next_page_token") == nil {
		t.Errorf("%s", list.text)
	}
	a.want(t, 200, "DELETE", "/v1/routes/labels", "", `If-Match: "1"`)
	if plans := a.want(t, 200, "GET", "/v1/plans", ""); !strings.Contains(plans.text, `"growth"`) {
		t.Errorf("%s", plans.text)
	}
	a.want(t, 409, "POST", "/v1/plans", `{"id":"free"}`)
	a.want(t, 422, "DELETE", "/v1/plans/growth", "")
	a.want(t, 200, "DELETE", "/v1/plans/free?why=sold%20out", "")
	a.want(t, 404, "DELETE", "/v1/plans/free", "")
	audit := a.want(t, 200, "GET", "/v1/audit?kind=plan&author=ops&page_size=1", "")
	if !strings.Contains(audit.text, `"sold out"`) || strings.Contains(audit.text, "noise") {
		t.Errorf("%s", audit.text)
	}
	if pods := a.want(t, 200, "GET", "/v1/pods", ""); pods.member(t, "pods") == nil {
		t.Errorf("%s", pods.text)
	}
	a.want(t, 200, "GET", "/v1/rules/growth-global/history", "")
	a.want(t, 201, "POST", "/v1/plans?domain=other", `{"id":"basic"}`)
	if other := a.want(t, 200, "GET", "/v1/plans?domain=other", ""); strings.Contains(other.text, "growth") {
		t.Errorf("%s", other.text)
	}
}

// An override is made, found, and ended.
func TestOverrideIsMadeAndEnded(t *testing.T) {
	a := open(t, editor)
	made := a.want(t, 201, "POST", "/v1/overrides?why=ticket%201", `{"rule":"growth-global","key":"acct_7Q2","rate":"500/s","burst":1000,"expires_at":"2027-01-01T00:00:00Z","reason":"launch week"}`)
	place := made.header.Get("Location")
	got := a.want(t, 200, "GET", place, "")
	if got.member(t, "key") != "acct_7Q2" || got.member(t, "author") != "ops" || got.header.Get("ETag") != "" {
		t.Errorf("%s", got.text)
	}
	for query, want := range map[string]bool{"": true, "?key=acct_7Q2": true, "?rule=growth-global": true, "?key=other": false} {
		list := a.want(t, 200, "GET", "/v1/overrides"+query, "")
		if strings.Contains(list.text, "acct_7Q2") != want {
			t.Errorf("%s: %s", query, list.text)
		}
	}
	a.want(t, 400, "DELETE", place, "", `If-Match: "1"`)
	a.want(t, 200, "DELETE", place, "")
	a.want(t, 404, "GET", place, "")
	a.want(t, 404, "DELETE", place, "")
}

// A list's filters and pages are the query's.
func TestListsHaveFiltersAndPages(t *testing.T) {
	a := open(t, editor)
	for _, id := range []string{"a", "b", "c"} {
		a.want(t, 201, "PUT", "/v1/rules/"+id, `{"route":"labels","identity":"ip","algorithm":"fixed_window","limit":10,"window":"1m","mode":"shadow"}`, "If-None-Match: *")
	}
	page := a.want(t, 200, "GET", "/v1/rules?mode=shadow&identity=ip&route=labels&page_size=2", "")
	token, _ := page.member(t, "next_page_token").(string)
	if rules, _ := page.member(t, "rules").([]any); len(rules) != 2 || token == "" {
		t.Fatalf("%s", page.text)
	}
	rest := a.want(t, 200, "GET", "/v1/rules?mode=shadow&page_size=2&page_token="+token, "")
	if rules, _ := rest.member(t, "rules").([]any); len(rules) != 1 || !strings.Contains(rest.text, `"c"`) {
		t.Errorf("%s", rest.text)
	}
	none := a.want(t, 200, "GET", "/v1/rules?plan=free", "")
	if rules, ok := none.member(t, "rules").([]any); !ok || len(rules) != 0 {
		t.Errorf("an empty list: %s", none.text)
	}
	for query, field := range map[string]string{
		"page_size=x": "page_size", "page_size=-1": "page_size", "page_size=99999999999": "page_size", "mode=on": "mode", "identity=": "identity",
		"mode=shadow&mode=enforce": "mode", "limit=3": `"limit"`, "page_token=x": "page_token", "plan=%ff": "plan", "plan=%00": "plan", "domain=A": "domain",
	} {
		wrong := a.want(t, 400, "GET", "/v1/rules?"+query, "")
		if p := wrong.problem(t); p.Code != codeBadRequest || len(p.Violations) != 1 || p.Violations[0].Field != field {
			t.Errorf("%s: %s", query, wrong.text)
		}
	}
	a.want(t, 400, "GET", "/v1/rules?plan=%zz", "")
}

// validate_only says what would be and changes nothing.
func TestValidateOnlyChangesNothing(t *testing.T) {
	a := open(t, editor)
	before := a.want(t, 200, "GET", "/v1/rules", "").text
	for path, body := range map[string]string{
		"PUT /v1/rules/growth-global": growthGlobal, "PUT /v1/routes/labels": `{"match":"GET /v1/labels","cost":5}`,
		"POST /v1/rules/growth-global:shadow": "", "DELETE /v1/rules/growth-global": "", "POST /v1/plans": `{"id":"enterprise"}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		var fields []string
		if path != "/v1/plans" {
			fields = append(fields, "If-Match: *")
		}
		got := a.want(t, 200, method, path+"?validate_only=true", body, fields...)
		if got.header.Get("ETag") != "" {
			t.Errorf("%s %s has an ETag: %s", method, path, got.text)
		}
	}
	if after := a.want(t, 200, "GET", "/v1/rules", "").text; after != before {
		t.Errorf("before %s, after %s", before, after)
	}
}

// A path, method or body that is none of the API's is refused with what is.
func TestWhatIsNoneOfTheAPIIsRefused(t *testing.T) {
	a := open(t, editor)
	for target, status := range map[string]int{
		"GET /v1": 404, "GET /v1/": 404, "GET /v1/rules/": 404, "GET //v1/rules": 404, "GET /v1/rules/growth-global/": 404,
		"GET /v1/rules/a/b": 404, "GET /v1/rules/a:b": 404, "POST /v1/rules/growth-global:delete": 404, "GET /v1/rules/growth-global%3Ashadow": 404,
		"GET /v1/rules/..": 404, "GET /v1/rules/%2e%2e": 404, "GET /v1/rules/a%2Fb": 404, "GET /v1/rules/growth-global'--": 404,
		"GET /v1/rules/%00": 400, "GET /v1/rules/%ff": 400, "GET /v1/rules/a%0Ab": 400,
		"POST /v1/rules": 405, "PATCH /v1/rules/growth-global": 405, "GET /v1/rules/growth-global:shadow": 405, "PUT /v1/plans/free": 405, "POST /v1/openapi.json": 405,
		"GET /v1/rules/" + strings.Repeat("a", 1024): 404, "HEAD /v1/rules/growth-global": 200, "GET /v1/openapi.json": 200,
		"OPTIONS /v1/rules/growth-global": 405, "TRACE /v1/rules": 405,
	} {
		method, path, _ := strings.Cut(target, " ")
		got := a.want(t, status, method, path, "")
		if allow := got.header.Get("Allow"); (allow != "") != (status == 405) {
			t.Errorf("%s: Allow %q", target, allow)
		}
	}
	if allow := a.want(t, 405, "PATCH", "/v1/rules/growth-global", "").header.Get("Allow"); allow != "GET, PUT, DELETE, HEAD" {
		t.Errorf("Allow %q", allow)
	}
	a.want(t, 400, "POST", "/v1/rules/growth-global:shadow", "{}", "If-Match: *")
	a.want(t, 400, "GET", "/v1/rules", "{}")
}

// A viewer reads and cannot write, tokens are an admin's; both are told as a
// problem.
func TestRolesAreToldAsProblems(t *testing.T) {
	a := open(t, viewer)
	a.want(t, 200, "GET", "/v1/rules", "")
	for target, body := range map[string]string{
		"PUT /v1/rules/x": growthGlobal, "PUT /v1/rules/y": `{"brust":1}`, "DELETE /v1/plans/free": "", "GET /v1/tokens": "",
	} {
		method, path, _ := strings.Cut(target, " ")
		if p := a.want(t, 403, method, path, body).problem(t); p.Code != codeForbidden {
			t.Errorf("%s: %+v", target, p)
		}
	}
	a = open(t, adminRole)
	made := a.want(t, 201, "POST", "/v1/tokens", `{"name":"ci","role":"editor","lifetime":"24h"}`)
	if made.member(t, "secret") == "" || made.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s", made.text)
	}
	id, _ := made.member(t, "token.id").(string)
	if revoked := a.want(t, 200, "POST", "/v1/tokens/"+id+":revoke", ""); revoked.member(t, "token.revoked_at") == nil {
		t.Errorf("%s", revoked.text)
	}
	a.want(t, 404, "POST", "/v1/tokens/abcdefgh:revoke", "")
	if list := a.want(t, 200, "GET", "/v1/tokens", ""); !strings.Contains(list.text, `"ci"`) || strings.Contains(list.text, "secret") {
		t.Errorf("%s", list.text)
	}
	for field, body := range map[string]string{"name": `{"role":"pod"}`, "role": `{"name":"x","role":"root"}`, "lifetime": `{"name":"x","role":"pod","lifetime":"1s"}`} {
		wrong := a.want(t, http.StatusBadRequest, "POST", "/v1/tokens", body)
		if p := wrong.problem(t); len(p.Violations) != 1 || p.Violations[0].Field != field {
			t.Errorf("%s: %s", field, wrong.text)
		}
	}
}
