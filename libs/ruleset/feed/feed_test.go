package feed

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// bucket is a rule for every account.
func bucket(id string, rate float64, burst int64) *rulesv1.Rule {
	return &rulesv1.Rule{
		Id: id, Version: 1, Scope: rulesv1.Scope_SCOPE_ALL, Identity: rulesv1.Identity_IDENTITY_API_KEY,
		Algorithm: rulesv1.Algorithm_ALGORITHM_TOKEN_BUCKET, Rate: &rate, Burst: &burst,
	}
}

// someRules is a ruleset of two rules.
func someRules() *rulesv1.Ruleset {
	return &rulesv1.Ruleset{Domain: "public-api", Revision: 7, Rules: []*rulesv1.Rule{bucket("a", 10, 20), bucket("b", 10, 20)}}
}

// rate is the rate of a rule in force, 0 if there is none.
func rate(feed *Feed, id string) limit.Rate {
	for _, rule := range feed.Current().Rules() {
		if rule.ID == id {
			return rule.Limit.Rate
		}
	}
	return 0
}

// logs is a log that can be read while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// A pod has no rules until the service is heard, and says so; then it has them all,
// and each change as soon as it is made.
func TestRulesAndChangesAreInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "one")
		feed := open(t, fleet.config("pod-1", "one"))
		if feed.Current() != nil || feed.Ready() == nil {
			t.Fatal("there are rules before the service was heard")
		}
		run(t, feed)
		if err := feed.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := rate(feed, "a"); got != 10 || feed.Ready() != nil {
			t.Errorf("rule a has rate %v, ready: %v", got, feed.Ready())
		}
		fleet.setRate("a", 30)
		synctest.Wait()
		if got := rate(feed, "a"); got != 30 || feed.Current().Revision() != 8 {
			t.Errorf("after a change rule a has rate %v at revision %d", got, feed.Current().Revision())
		}
		if s := feed.Status(); !s.Watching || s.Watches != 1 || s.Revision != 8 || s.Failure != nil {
			t.Errorf("status %+v", s)
		}
	})
}

// The service is away for ten minutes: pods go by the rules that they have, those
// that restart have them from disk, and all have the new ones within 5 s of the return
// of one of its three instances, without a rush on it.
func TestOutageOfTenMinutes(t *testing.T) {
	const pods = 50
	names := []string{"one", "two", "three"}
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), names...)
		feeds, stops := make([]*Feed, pods), make([]func(), pods)
		begin := func(i int) {
			cfg := fleet.config(fmt.Sprint("pod-", i), names...)
			cfg.Copy = filepath.Join(dir, cfg.Pod.Id)
			feeds[i] = open(t, cfg)
			stops[i] = run(t, feeds[i])
		}
		for i := range feeds {
			begin(i)
		}
		time.Sleep(time.Minute)
		wantRevision(t, feeds, 7)
		for _, name := range names {
			fleet.fell(name)
		}
		away := time.Now()
		time.Sleep(5 * time.Minute)
		for i := range pods / 2 {
			stops[i]()
			begin(i)
			if feeds[i].Ready() != nil {
				t.Fatalf("pod %d has no rules after a restart", i)
			}
		}
		time.Sleep(5 * time.Minute)
		wantRevision(t, feeds, 7)
		fleet.setRate("a", 30)
		back := time.Now()
		fleet.raise("one")
		time.Sleep(5 * time.Second)
		wantRevision(t, feeds, 8)
		for i, feed := range feeds {
			if rate(feed, "a") != 30 {
				t.Errorf("pod %d did not take the change", i)
			}
		}
		// In the first second each pod tries the instance three or four times, later once in
		// 2 s, and once it is back each comes within 4 s. The bounds are several deviations
		// away, and what has no jitter is far beyond them.
		tried, made := fleet.connections("one")
		first := busiestSecond(tried, away, away.Add(5*time.Second))
		later := busiestSecond(tried, away.Add(10*time.Second), away.Add(4*time.Minute))
		again := busiestSecond(made, back, back.Add(5*time.Second))
		if first > 5*pods || later > pods*6/5 || again > pods*9/10 {
			t.Errorf("within a second there were %d attempts when the service went, %d while it was away, and %d connections when it was back", first, later, again)
		}
		t.Logf("within a second %d attempts when the service went, %d while it was away, and %d connections when it was back", first, later, again)
	})
}

// busiestSecond is the most of the moments from from to to that any second holds.
func busiestSecond(moments []time.Time, from, to time.Time) (most int) {
	for i, first := range moments {
		if first.Before(from) || first.After(to) {
			continue
		}
		n := slices.IndexFunc(moments[i:], func(m time.Time) bool { return m.Sub(first) >= time.Second || m.After(to) })
		if n < 0 {
			n = len(moments) - i
		}
		most = max(most, n)
	}
	return most
}

func wantRevision(t *testing.T, feeds []*Feed, want int64) {
	t.Helper()
	for i, feed := range feeds {
		if got := feed.Status().Revision; got != want {
			t.Errorf("pod %d is at revision %d, want %d", i, got, want)
		}
	}
}

// An address that accepts and then says nothing is left for another one after three
// heartbeats.
func TestSilentServiceIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "one", "two")
		feed := open(t, fleet.config("pod-1", "one", "two"))
		run(t, feed)
		time.Sleep(5 * time.Second)
		frozen := feed.contact.watched().address
		fleet.freeze(strings.TrimPrefix(frozen, "http://"))
		time.Sleep(beat + 3*beat + waitFirst)
		if now := feed.contact.watched(); now == nil || now.address == frozen {
			t.Errorf("still watches %+v", now)
		}
		fleet.setRate("a", 30)
		synctest.Wait()
		if got := rate(feed, "a"); got != 30 {
			t.Errorf("rule a has rate %v", got)
		}
	})
}

// A service that drains loses its pods to the others at once, spread over waitFirst.
func TestDrainedServiceIsLeftAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "one", "two")
		feed := open(t, fleet.config("pod-1", "one", "two"))
		run(t, feed)
		time.Sleep(time.Minute)
		drained := feed.contact.watched().address
		fleet.drained(strings.TrimPrefix(drained, "http://"))
		time.Sleep(waitFirst)
		synctest.Wait()
		if now := feed.contact.watched(); now == nil || now.address == drained {
			t.Errorf("watches %+v", now)
		}
		if got := fleet.asked(); !slices.Equal(got, []int64{0, 7}) {
			t.Errorf("asked from revisions %v, want 0 and then its own, 7", got)
		}
	})
}

// Overrides start and end by the service's clock, whatever this machine's says, and
// however long ago the service was heard.
func TestOverridesGoByTheServicesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := someRules()
		deny := &rulesv1.Override{Id: "o-1", Rule: "a", Key: "acct_1", Deny: true,
			StartsAt: timestamppb.New(time.Now().Add(time.Hour)), ExpiresAt: timestamppb.New(time.Now().Add(2 * time.Hour))}
		set.Overrides = append(set.Overrides, deny)
		fleet := newFleet(t, set, "one")
		fleet.skew = 50 * time.Minute
		feed := open(t, fleet.config("pod-1", "one"))
		banned := func() bool {
			subject, err := limit.NewSubject("public-api", limit.Account, "acct_1")
			if err != nil {
				t.Fatal(err)
			}
			var request limit.Request
			feed.Current().Match(feed.Now(), nil, &ruleset.Caller{Account: subject}, &request)
			return request.Charges[0].Banned
		}
		run(t, feed)
		time.Sleep(5 * time.Minute)
		fleet.fell("one")
		time.Sleep(5*time.Minute - time.Millisecond)
		if banned() {
			t.Error("the override is in force before its time at the service")
		}
		time.Sleep(time.Millisecond)
		if !banned() {
			t.Error("the override is not in force at its time at the service")
		}
		time.Sleep(time.Hour)
		if banned() {
			t.Error("the override is in force after its time at the service")
		}
	})
}

// A rule with a fault keeps its last good version and holds up no other; it is told
// of in one line and in each report, until it is mended.
func TestFaultyRuleKeepsItsLastGoodVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, text := newFleet(t, someRules(), "one"), &logs{}
		cfg := fleet.config("pod-1", "one")
		cfg.Logger = slog.New(slog.NewTextHandler(text, nil))
		feed := open(t, cfg)
		run(t, feed)
		time.Sleep(time.Minute)
		fleet.setRate("a", -1)
		fleet.setRate("b", 30)
		time.Sleep(time.Minute)
		if a, b := rate(feed, "a"), rate(feed, "b"); a != 10 || b != 30 {
			t.Errorf("the rates are %v and %v, want the last good 10 and the new 30", a, b)
		}
		if faults := fleet.reported("pod-1").GetFaults(); len(faults) != 1 || !strings.HasPrefix(faults[0], "rule a: ") {
			t.Errorf("reports %q", faults)
		}
		fleet.drained("one") // and so asks for the whole
		time.Sleep(time.Minute)
		if n := text.count("have faults"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &text.text)
		}
		if got := fleet.asked(); !slices.Equal(got, []int64{0, 0}) {
			t.Errorf("asked from revisions %v, want the whole: what was refused is not sent again", got)
		}
		fleet.setRate("a", 50)
		time.Sleep(time.Minute)
		if got := rate(feed, "a"); got != 50 {
			t.Errorf("after it was mended the rate is %v", got)
		}
		if faults := fleet.reported("pod-1").GetFaults(); len(faults) != 0 {
			t.Errorf("after it was mended reports %q", faults)
		}
	})
}

// A bad rule in the first snapshot is left out, and the pod has the others.
func TestFaultyRuleAtTheStartIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := someRules()
		set.Rules[0].Algorithm = 99 // of a service that is newer
		fleet := newFleet(t, set, "one")
		feed := open(t, fleet.config("pod-1", "one"))
		run(t, feed)
		synctest.Wait()
		if a, b := rate(feed, "a"), rate(feed, "b"); a != 0 || b != 10 {
			t.Errorf("the rates are %v and %v, want none and 10", a, b)
		}
		if s := feed.Status(); len(s.Faults) != 1 || !strings.HasPrefix(s.Faults[0], "rule a: ") {
			t.Errorf("the faults are %q", s.Faults)
		}
	})
}

// A report tells who goes by which revision and what was decided, as often as the
// service asks.
func TestReportsTellWhatWasDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "one")
		fleet.every = 2 * time.Second
		feed := open(t, fleet.config("pod-1", "one"))
		run(t, feed)
		synctest.Wait()
		rules := feed.Current().Rules()
		feed.Tally().Count(&limit.Decision{Outcomes: []limit.Outcome{
			{Rule: rules[0], DecidedBy: limit.ByLease}, {Rule: rules[1], DecidedBy: limit.ByStore, Short: true},
		}})
		time.Sleep(reportEvery)
		got := fleet.reported("pod-1")
		slices.SortFunc(got.Counts, func(a, b *rulesv1.RuleCounts) int { return strings.Compare(a.Rule, b.Rule) })
		if got.Revision != 7 || got.Incarnation == "" || got.Pod.Region != "eu-west" || len(got.Counts) != 2 {
			t.Fatalf("reported %v", got)
		}
		if a, b := got.Counts[0], got.Counts[1]; a.Evaluated != 1 || a.Refused != 0 || b.Evaluated != 1 || b.Refused != 1 || a.Version != 1 {
			t.Errorf("reported %v", got.Counts)
		}
		feed.Tally().Shadow(rules[0], 9, 4)
		time.Sleep(2 * time.Second)
		for _, c := range fleet.reported("pod-1").Counts {
			if c.Rule == "a" && (c.Evaluated != 10 || c.Refused != 4) {
				t.Errorf("after 2 s reported %v", c)
			}
		}
	})
}

// Without a good token a pod goes by what it has; with a good one it watches.
func TestTokenIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet, text := newFleet(t, someRules(), "one"), &logs{}
		fleet.secret = "slt_id_secret"
		cfg := fleet.config("pod-1", "one")
		cfg.Token, cfg.Logger = "slt_id_wrong", slog.New(slog.NewTextHandler(text, nil))
		wrong := open(t, cfg)
		run(t, wrong)
		cfg.Token = fleet.secret + "\n"
		right := open(t, cfg)
		run(t, right)
		time.Sleep(time.Minute)
		if wrong.Ready() == nil || right.Ready() != nil {
			t.Errorf("with a wrong token: %v, with the right one: %v", wrong.Ready(), right.Ready())
		}
		if n := text.count("level=ERROR"); n != 1 || text.count("slt_id") > 0 {
			t.Errorf("%d errors in\n%s", n, &text.text)
		}
		if err := right.token.Set("slt_id_wrong"); err != nil { // as when its file changes
			t.Fatal(err)
		}
	})
}

// An address with a secret in it is refused and not shown, as all that is wrong is
// told at once.
func TestConfigIsChecked(t *testing.T) {
	_, err := Open(Config{
		Addresses: []string{"http://pod:hunter2@rules:8082", "ftp://rules", "rules:8082", "http://rules/?q=1"},
		Domain:    "No Such Domain", Pod: &rulesv1.Pod{Id: strings.Repeat("x", 129), Region: "\n"}, Token: "a", TokenFile: "b",
	})
	if err == nil {
		t.Fatal("no fault was found")
	}
	for _, want := range []string{"rules:8082 must not hold", "ftp://rules", "?q=1", "No Such Domain", "pod id", "region", "token is there twice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("shows a password:\n%v", err)
	}
}
