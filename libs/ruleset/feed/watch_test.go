package feed

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

func snapshot(set *rulesv1.Ruleset, more bool) *rulesv1.WatchResponse {
	return &rulesv1.WatchResponse{Event: &rulesv1.WatchResponse_Snapshot{Snapshot: &rulesv1.Snapshot{Part: set, More: more}}}
}

func changes(from, to int64, all ...*rulesv1.Change) *rulesv1.WatchResponse {
	return &rulesv1.WatchResponse{Event: &rulesv1.WatchResponse_Changes{Changes: &rulesv1.Changes{From: from, Revision: to, Changes: all}}}
}

func heartbeat(revision int64, every time.Duration) *rulesv1.WatchResponse {
	return &rulesv1.WatchResponse{Event: &rulesv1.WatchResponse_Heartbeat{Heartbeat: &rulesv1.Heartbeat{Revision: revision, Every: durationpb.New(every)}}}
}

func part(revision int64, rules ...*rulesv1.Rule) *rulesv1.Ruleset {
	return &rulesv1.Ruleset{Domain: "public-api", Revision: revision, Rules: rules}
}

// A watch goes on only from the revision that the pod has: whatever else comes ends
// it, changes nothing, and has the service asked anew.
func TestWatchTakesNothingOutOfOrder(t *testing.T) {
	elsewhere := part(8)
	elsewhere.Domain = "another"
	rule := &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: bucket("a", 30, 20)}}
	for name, c := range map[string]struct {
		messages []*rulesv1.WatchResponse
		want     error // of the last; the others must pass
	}{
		"changes that follow":                  {[]*rulesv1.WatchResponse{changes(7, 8, rule), changes(8, 11, rule)}, nil},
		"changes after one was missed":         {[]*rulesv1.WatchResponse{changes(8, 9, rule)}, errGap},
		"changes that are here already":        {[]*rulesv1.WatchResponse{changes(6, 7, rule)}, errGap},
		"changes that go back":                 {[]*rulesv1.WatchResponse{changes(7, 7, rule)}, errBroken},
		"changes within a snapshot":            {[]*rulesv1.WatchResponse{snapshot(part(8), true), changes(7, 8, rule)}, errBroken},
		"a heartbeat within a snapshot":        {[]*rulesv1.WatchResponse{snapshot(part(8, bucket("b", 1, 1)), true), heartbeat(8, time.Second), snapshot(part(8), false)}, nil},
		"a heartbeat of another revision":      {[]*rulesv1.WatchResponse{heartbeat(8, time.Second)}, errGap},
		"a heartbeat of this revision":         {[]*rulesv1.WatchResponse{heartbeat(7, time.Second)}, nil},
		"parts of two revisions":               {[]*rulesv1.WatchResponse{snapshot(part(8), true), snapshot(part(9), false)}, errBroken},
		"a snapshot of another domain":         {[]*rulesv1.WatchResponse{snapshot(elsewhere, false)}, errBroken},
		"a snapshot without a revision":        {[]*rulesv1.WatchResponse{snapshot(part(0), false)}, errBroken},
		"a snapshot that goes back":            {[]*rulesv1.WatchResponse{snapshot(part(3, bucket("b", 1, 1)), false), heartbeat(3, time.Second)}, nil}, // the database was put back
		"a message of a service that is newer": {[]*rulesv1.WatchResponse{{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			feed := open(t, (&fleet{}).config("pod-1", "one"))
			feed.takeWhole(someRules())
			w := &watch{feed: feed, sent: 7, patience: firstWait}
			for i, m := range c.messages {
				err := w.take(m)
				if last := i == len(c.messages)-1; !last && err != nil || last && !errors.Is(err, c.want) {
					t.Fatalf("message %d: %v, want %v", i, err, c.want)
				}
			}
			if c.want != nil && (rate(feed, "a") != 10 || feed.ask() != 7) {
				t.Errorf("rule a has rate %v, and the next watch asks from %d", rate(feed, "a"), feed.ask())
			}
		})
	}
}

// What follows a snapshot that was refused whole is not applied to what is in force
// instead: the pod asks for everything.
func TestAfterASnapshotThatWasRefusedThePodAsksForEverything(t *testing.T) {
	feed := open(t, (&fleet{}).config("pod-1", "one"))
	feed.takeWhole(someRules())
	w := &watch{feed: feed, sent: 7}
	if err := w.take(snapshot(part(8, bucket("No Name", 30, 20)), false)); err != nil {
		t.Fatal(err)
	}
	if s := feed.Status(); s.Revision != 7 || len(s.Faults) == 0 {
		t.Fatalf("status %+v", s)
	}
	if err := w.take(heartbeat(8, time.Second)); err != nil {
		t.Errorf("a heartbeat of what was refused: %v", err)
	}
	if err := w.take(changes(8, 9, &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: bucket("a", 30, 20)}})); !errors.Is(err, errGap) || feed.ask() != 0 {
		t.Errorf("got %v, and asks from %d", err, feed.ask())
	}
}

// A change that does not fit what the pod has, so that no item of it can be blamed, has
// the pod ask for everything.
func TestAfterAChangeThatDoesNotFitThePodAsksForEverything(t *testing.T) {
	feed := open(t, (&fleet{}).config("pod-1", "one"))
	set, plan := someRules(), "free"
	set.Plans = []*rulesv1.Plan{{Id: plan}}
	set.Rules[0].Plan, set.Rules[0].Scope = plan, rulesv1.Scope_SCOPE_UNSPECIFIED
	feed.takeWhole(set)
	w := &watch{feed: feed, sent: 7}
	gone := &rulesv1.Change{Item: &rulesv1.Change_Deletion{Deletion: &rulesv1.Deletion{Kind: rulesv1.Kind_KIND_PLAN, Id: plan}}}
	if err := w.take(changes(7, 8, gone)); !errors.Is(err, errGap) || feed.ask() != 0 || rate(feed, "a") != 10 {
		t.Errorf("got %v, asks from %d, and rule a has rate %v", err, feed.ask(), rate(feed, "a"))
	}
}

// After the database was put back to an earlier state its rules are in force, lower
// revision or not: of two limits of a rule the later one to come is the newer.
func TestRulesOfADatabaseThatWasPutBackAreInForce(t *testing.T) {
	feed := open(t, (&fleet{}).config("pod-1", "one"))
	subject, err := limit.NewSubject("public-api", limit.Account, "acct_1")
	if err != nil {
		t.Fatal(err)
	}
	order := func() int64 {
		var request limit.Request
		feed.Current().Match(time.Now(), nil, &ruleset.Caller{Account: subject}, &request)
		return request.Charges[0].Revision
	}
	feed.takeWhole(someRules())
	w, last := &watch{feed: feed, sent: 7}, order()
	rule := &rulesv1.Change{Item: &rulesv1.Change_Rule{Rule: bucket("a", 30, 20)}}
	for i, m := range []*rulesv1.WatchResponse{snapshot(part(3, bucket("a", 1, 1)), false), changes(3, 4, rule), changes(4, 5)} {
		if err := w.take(m); err != nil {
			t.Fatal(err)
		}
		if now := order(); now <= last || feed.Current().Revision() != int64(3+i) {
			t.Errorf("message %d: revision %d, and charges are of %d after %d", i, feed.Current().Revision(), now, last)
		}
		last = order()
	}
}

// The patience with a service is three of its heartbeats, within bounds.
func TestPatienceIsThreeHeartbeats(t *testing.T) {
	feed := open(t, (&fleet{}).config("pod-1", "one"))
	w := &watch{feed: feed}
	for every, want := range map[time.Duration]time.Duration{2 * time.Second: 6 * time.Second, 0: 3 * everyMin, time.Hour: 3 * everyMax} {
		if err := w.take(heartbeat(0, every)); err != nil || w.patience != want {
			t.Errorf("every %v: %v, %v, want %v", every, w.patience, err, want)
		}
	}
}

// Waits never exceed their bound and begin small again after a watch that held; the
// addresses take turns, and share the bound between them.
func TestPace(t *testing.T) {
	p := newPace(3)
	tried := map[int]int{}
	for i := range 300 {
		tried[p.address()]++
		if most, wait := min(waitFirst<<min(i/3, 5), waitMax)/3, p.ended(0); wait < 0 || wait >= most {
			t.Fatalf("wait %d is %v, want below %v", i, wait, most)
		}
	}
	if tried[0] != 100 || tried[1] != 100 || tried[2] != 100 {
		t.Errorf("tried %v", tried)
	}
	if wait := p.ended(steady); wait >= waitFirst/3 {
		t.Errorf("after a watch that held: %v", wait)
	}
}
