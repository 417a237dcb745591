package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/client"
	"github.com/shiplane/limits/libs/limit"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

var twoRules = map[string]limit.Limit{"global": {Rate: 1, Burst: 10}, "route": {Rate: 1, Burst: 3}}

// A decision says what the checker said: who refused, and for how long.
func TestCheckSaysWhatTheCheckerDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clientOf(t, startFakeChecker(t, twoRules).handler(), nil)
		both := []client.Entry{{Rule: "global", Key: "acct"}, {Rule: "route", Key: "acct", Cost: 2}}
		d, err := c.Check(t.Context(), "public-api", both...)
		if err != nil || !d.Allowed || d.DecidedBy != client.ByChecker || d.Refused != "" || d.Answer.GetEntries()[0].GetRemaining() != 9 || d.Answer.GetEntries()[1].GetRemaining() != 1 {
			t.Errorf("allowed: %+v, %v", d, err)
		}
		d, err = c.Check(t.Context(), "public-api", both...)
		if err != nil || d.Allowed || d.Unavailable || d.Refused != "route" || d.RetryAfter != time.Second || d.Answer.GetEntries()[0].GetRemaining() != 9 {
			t.Errorf("denied: %+v, %v", d, err)
		}
	})
}

// Without an answer a check ends at its timeout and fallbacks decide: an open rule
// admits, a closed one refuses, a local one has a bucket for each key; a request of
// several rules is refused by the strictest, and charges none then.
func TestWithoutAnAnswerFallbacksDecideInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startFakeChecker(t, twoRules)
		k.become(true, nil)
		c := clientOf(t, k.handler(), func(cfg *client.Config) {
			cfg.Rules = map[string]client.Fallback{"closed": client.Closed(), "local": client.Local(1, 2), "wide": client.Local(1, 4)}
		})
		check := func(entries ...client.Entry) client.Decision {
			t.Helper()
			start := time.Now()
			d, err := c.Check(t.Context(), "public-api", entries...)
			if took := time.Since(start); err != nil || took > 12*time.Millisecond || d.DecidedBy != client.ByFallback || d.Cause == nil {
				t.Errorf("%v took %v: %+v, %v", entries, took, d, err)
			}
			return d
		}
		local, wide := client.Entry{Rule: "local", Key: "a"}, client.Entry{Rule: "wide", Key: "a"}
		if d := check(client.Entry{Rule: "other", Key: "a"}); !d.Allowed {
			t.Errorf("an open rule: %+v", d)
		}
		if d := check(local, client.Entry{Rule: "closed", Key: "a"}); d.Allowed || !d.Unavailable || d.Refused != "closed" || d.RetryAfter <= 0 {
			t.Errorf("a closed rule: %+v", d)
		}
		for i := range 2 {
			if d := check(wide, local); !d.Allowed {
				t.Errorf("request %d of a local bucket of 2: %+v", i, d)
			}
		}
		if d := check(wide, local); d.Allowed || d.Unavailable || d.Refused != "local" || d.RetryAfter <= 900*time.Millisecond || d.RetryAfter > time.Second {
			t.Errorf("an empty local bucket: %+v", d)
		}
		for i := range 2 {
			if d := check(wide); !d.Allowed {
				t.Errorf("a refusal charged another rule: request %d: %+v", i, d)
			}
		}
		if d := check(client.Entry{Rule: "local", Key: "b", Cost: 3}); d.Allowed || d.RetryAfter != 0 {
			t.Errorf("a cost above the local burst: %+v", d)
		}
	})
}

// A checker that does not answer is left alone after three timeouts but for a probe
// a second, and costs no wait meanwhile; once it answers, it decides again.
func TestAbsentCheckerCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startFakeChecker(t, twoRules)
		k.become(true, nil)
		c := clientOf(t, k.handler(), nil)
		start := time.Now()
		entry := client.Entry{Rule: "global", Key: "acct"}
		for range 1000 {
			if d, err := c.Check(t.Context(), "public-api", entry); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if took := time.Since(start); k.called() != 3 || took > 3*12*time.Millisecond {
			t.Errorf("1000 checks called an absent checker %d times and took %v, want 3 timeouts", k.called(), took)
		}
		k.become(false, nil)
		time.Sleep(2 * time.Second)
		for range 2 {
			if d, err := c.Check(t.Context(), "public-api", entry); err != nil || d.DecidedBy != client.ByChecker {
				t.Errorf("after its return: %+v, %v", d, err)
			}
		}
	})
}

// Where nobody is at an address, nothing was charged: the next checker is asked. An
// answer that does not come may have been charged: nobody else is asked.
func TestOnlyWhatWasNotSentGoesToTheNextChecker(t *testing.T) {
	k := startFakeChecker(t, twoRules)
	server := httptest.NewServer(k.handler())
	t.Cleanup(server.Close)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := "http://" + nobody.Addr().String()
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URLs: []string{gone, server.URL}, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	entry := client.Entry{Rule: "global", Key: "acct"}
	for i := range 4 {
		if d, err := c.Check(t.Context(), "public-api", entry); err != nil || d.DecidedBy != client.ByChecker {
			t.Errorf("check %d: %+v, %v", i, d, err)
		}
	}
	if k.called() != 4 {
		t.Errorf("4 checks were %d calls", k.called())
	}
	synctest.Test(t, func(t *testing.T) {
		frozen := startFakeChecker(t, twoRules)
		frozen.become(true, nil)
		c := clientOf(t, frozen.handler(), func(cfg *client.Config) { cfg.URLs = []string{"http://one", "http://two"} })
		if d, err := c.Check(t.Context(), "public-api", entry); err != nil || d.DecidedBy != client.ByFallback || frozen.called() != 1 {
			t.Errorf("%d calls: %+v, %v", frozen.called(), d, err)
		}
	})
}

// A checker that could not ask the counter of a closed rule has decided: fallbacks do
// not admit in its place, and its breaker stays closed.
func TestClosedRuleOfTheCheckerIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := int32(0)
		detail, err := connect.NewErrorDetail(&checkv1.CheckResponse{
			Verdict: checkv1.Verdict_VERDICT_UNAVAILABLE, Cause: checkv1.Cause_CAUSE_STORE_TIMEOUT, Refused: &refused, Entries: []*checkv1.Outcome{{Rule: "login", Key: "eve", Short: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		failure := connect.NewError(connect.CodeDeadlineExceeded, errors.New("store_timeout"))
		failure.AddDetail(detail)
		k := startFakeChecker(t, twoRules)
		k.become(false, failure)
		c := clientOf(t, k.handler(), nil)
		for range 50 {
			d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "login", Key: "eve"})
			if err != nil || d.Allowed || !d.Unavailable || d.DecidedBy != client.ByChecker || d.Refused != "login" {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if k.called() != 50 {
			t.Errorf("50 checks were %d calls", k.called())
		}
	})
}

// A checker that says that it cannot decide such a request is a fault to be told,
// beside the decision of the fallbacks; it is no outage.
func TestFaultsOfTheCallerAreToldAndDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startFakeChecker(t, twoRules)
		c := clientOf(t, k.handler(), func(cfg *client.Config) { cfg.Fallback = client.Closed() })
		for range 50 {
			d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "unknown", Key: "acct"})
			if connect.CodeOf(err) != connect.CodeNotFound || d.Allowed || d.DecidedBy != client.ByFallback {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		if d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "global", Key: "acct"}); err != nil || !d.Allowed || k.called() != 51 {
			t.Errorf("%d calls: %+v, %v", k.called(), d, err)
		}
		for range 50 { // whoever chooses keys must not bring a checker out of use by long ones
			if d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "global", Key: strings.Repeat("k", checkBytesMax)}); connect.CodeOf(err) != connect.CodeResourceExhausted || d.DecidedBy != client.ByFallback {
				t.Fatalf("a long key: %+v, %v", d, err)
			}
		}
		if d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "global", Key: "acct"}); err != nil || !d.Allowed {
			t.Errorf("after long keys: %+v, %v", d, err)
		}
		k.become(false, connect.NewError(connect.CodeUnavailable, errors.New("no rules yet")))
		if d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "global", Key: "acct"}); err != nil || d.Allowed || d.DecidedBy != client.ByFallback {
			t.Errorf("a checker without rules: %+v, %v", d, err)
		}
	})
}

// A caller that leaves gets no decision, and its leaving speaks not against the
// checker.
func TestCallerThatLeavesGetsNoDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := startFakeChecker(t, twoRules)
		k.become(true, nil)
		c := clientOf(t, k.handler(), nil)
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			d, err := c.Check(ctx, "public-api", client.Entry{Rule: "global", Key: "acct"})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || d.Allowed || d.DecidedBy != 0 {
				t.Errorf("%+v, %v", d, err)
			}
		}
		k.become(false, nil)
		if d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "global", Key: "acct"}); err != nil || d.DecidedBy != client.ByChecker {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A token is sent, and what cannot work is said by New.
func TestConfig(t *testing.T) {
	k := startFakeChecker(t, twoRules)
	tokens := make(chan string, 1)
	c := clientOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization")
		k.handler().ServeHTTP(w, r)
	}), func(cfg *client.Config) { cfg.Token = "secret-token" })
	if d, err := c.Check(t.Context(), "public-api", client.Entry{Rule: "global", Key: "acct"}); err != nil || !d.Allowed || <-tokens != "Bearer secret-token" {
		t.Errorf("%+v, %v", d, err)
	}
	urls := []string{"http://checker"}
	for name, cfg := range map[string]client.Config{
		"no URL": {}, "no scheme": {URLs: []string{"checker:8081"}}, "password": {URLs: []string{"http://a:hunter2@checker"}}, "port": {URLs: []string{"http://a:hunter2@checker:x"}}, "timeout": {URLs: urls, Timeout: -1},
		"rate": {URLs: urls, Fallback: client.Local(0, 1)}, "burst": {URLs: urls, Rules: map[string]client.Fallback{"a": client.Local(1, 0)}},
	} {
		if _, err := client.New(cfg); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
