package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/topk"
)

// Whoever is nearest to what a limit entitles them to is named, for each rule that
// somebody met, the nearest first.
func TestTopNamesTheHottest(t *testing.T) {
	calls, err := topk.New[topKey](topKept, topWindow)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	acme, err := limit.NewSubject("test", limit.Account, "acme")
	if err != nil {
		t.Fatal(err)
	}
	stats := func() limiter.Stats {
		return limiter.Stats{Rules: []limiter.RuleStats{
			{ID: "idle"},
			{ID: "half", Hottest: limiter.Hot{Subject: acme, Admitted: 600, Entitled: 1200}},
			{ID: "full", Hottest: limiter.Hot{Subject: acme, Admitted: 120, Entitled: 120}},
		}}
	}
	page := httptest.NewRecorder()
	withTop(http.NotFoundHandler(), &topStore{Store: counters, calls: calls}, stats).ServeHTTP(page, httptest.NewRequest("GET", "/debug/top", nil))
	got := strings.Join(strings.Fields(page.Body.String()), "")
	want := `{"seconds":10,"keys":[],"hottest":[` +
		`{"rule":"full","subject":"test/account:acme","admitted":120,"entitled":120},` +
		`{"rule":"half","subject":"test/account:acme","admitted":600,"entitled":1200}]}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
