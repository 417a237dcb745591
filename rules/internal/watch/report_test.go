package watch_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/watch"
)

func report(pod string, evaluated int64) *rulesv1.ReportRequest {
	return &rulesv1.ReportRequest{
		Domain: domain, Pod: &rulesv1.Pod{Id: pod, Region: "us-east", Canary: true}, Incarnation: "i-1", Revision: 7,
		Faults: []string{"rules[3]: no"}, Counts: []*rulesv1.RuleCounts{{Rule: "global", Version: 2, Evaluated: evaluated, Refused: 1}},
	}
}

// Reports of one second are stored together, of each pod the last; those that
// cannot be stored are made good by the next.
func TestReportsAreStoredOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shelf{}
		s := newHub(t, watch.Config{Reports: store})
		go func() { _ = s.Run(t.Context()) }()
		told := func(q *rulesv1.ReportRequest) {
			t.Helper()
			if answer, err := s.Report(t.Context(), q); err != nil || answer.GetNext() != nil {
				t.Fatal(answer, err)
			}
		}
		told(report("a", 10))
		told(report("b", 20))
		told(report("a", 30))
		time.Sleep(1001 * time.Millisecond)
		batches := store.stored()
		if len(batches) != 1 || len(batches[0]) != 2 {
			t.Fatalf("stored %v, want one batch of two pods", batches)
		}
		got := batches[0][0]
		if got.Pod.GetId() != "a" || got.Counts[0].GetEvaluated() != 30 || got.Revision != 7 || got.Incarnation != "i-1" || got.Domain != domain || got.Faults[0] != "rules[3]: no" || got.At.IsZero() {
			t.Errorf("stored %+v", got)
		}

		store.mu.Lock()
		store.away = true
		store.mu.Unlock()
		told(report("a", 40))
		time.Sleep(time.Second)
		store.mu.Lock()
		store.away = false
		store.mu.Unlock()
		told(report("a", 50))
		time.Sleep(time.Second)
		if batches := store.stored(); len(batches) != 2 || batches[1][0].Counts[0].GetEvaluated() != 50 {
			t.Errorf("stored %v", batches)
		}
		if got := s.count(`shiplane_rules_reports_total{result="dropped"}`); got != "1" {
			t.Errorf("%s reports were dropped, want 1", got)
		}
	})
}

// What is left at the end is stored; while a rollout waits pods report sooner.
func TestReportsAtTheEndAndInARollout(t *testing.T) {
	store := &shelf{}
	s := newStage(t, watch.Config{Reports: store, RollingOut: func(d string) bool { return d == domain }})
	answer, err := newPod(t, s, 4).client.Report(t.Context(), report("a", 10))
	if err != nil || answer.GetNext().AsDuration() != 2*time.Second {
		t.Errorf("the answer is %v, %v", answer, err)
	}
	s.end(t)
	if batches := store.stored(); len(batches) != 1 {
		t.Errorf("stored %v at the end", batches)
	}
}

// Reports that wait to be stored take bounded memory: more are refused, and the
// pod tells it all again.
func TestReportsAreBounded(t *testing.T) {
	s := newHub(t, watch.Config{})
	big := make([]string, 100)
	for i := range big {
		big[i] = strings.Repeat("x", 1024)
	}
	const most = 64 << 20 / (100 << 10)
	for i := range most + 1 {
		q := report(fmt.Sprint("pod-", i), 1)
		q.Faults = big
		_, err := s.Report(t.Context(), q)
		switch {
		case err != nil && i < most/2:
			t.Fatalf("report %d is refused: %v", i, err)
		case err != nil && connect.CodeOf(err) == connect.CodeResourceExhausted:
			return
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Error("all were taken")
}

// What a pod may not say is refused with the field and what is allowed, and stored
// nowhere: one report that the database refuses would take a whole batch with it.
func TestRequestsAreChecked(t *testing.T) {
	s := newHub(t, watch.Config{})
	for want, spoil := range map[string]func(*rulesv1.ReportRequest){
		"domain is \"No\"":             func(q *rulesv1.ReportRequest) { q.Domain = "No" },
		"pod.id is \"\"":               func(q *rulesv1.ReportRequest) { q.Pod = nil },
		"pod.id is \"\\x00\"":          func(q *rulesv1.ReportRequest) { q.Pod.Id = "\x00" },
		"pod.region is":                func(q *rulesv1.ReportRequest) { q.Pod.Region = strings.Repeat("x", 65) },
		"incarnation is":               func(q *rulesv1.ReportRequest) { q.Incarnation = "é" },
		"revision is -1":               func(q *rulesv1.ReportRequest) { q.Revision = -1 },
		"the number of faults is 101":  func(q *rulesv1.ReportRequest) { q.Faults = make([]string, 101) },
		"faults[1] is":                 func(q *rulesv1.ReportRequest) { q.Faults = []string{"a", "b\x00"} },
		"the number of counts is 8193": func(q *rulesv1.ReportRequest) { q.Counts = make([]*rulesv1.RuleCounts, 8193) },
		"counts[0].rule is":            func(q *rulesv1.ReportRequest) { q.Counts[0].Rule = "' OR 1=1" },
		"counts[0].version is -1":      func(q *rulesv1.ReportRequest) { q.Counts[0].Version = -1 },
		"counts[0].refused is 11":      func(q *rulesv1.ReportRequest) { q.Counts[0].Refused = 11 },
		"counts[1] is \"global\": want each version of a rule once": func(q *rulesv1.ReportRequest) { q.Counts = append(q.Counts, q.Counts[0]) },
	} {
		q := proto.CloneOf(report("a", 10))
		spoil(q)
		_, err := s.Report(t.Context(), q)
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "want ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	q := report("a", 10)
	q.Domain = "nobodys"
	if _, err := s.Report(t.Context(), q); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a report of a domain without rules got %v", err)
	}
}

// A watch that asks for what there cannot be is refused with the reason.
func TestWatchesAreChecked(t *testing.T) {
	s := newStage(t, watch.Config{})
	client := newPod(t, s, 2).client
	for name, c := range map[string]struct {
		q    *rulesv1.WatchRequest
		code connect.Code
		want string
	}{
		"no pod":            {&rulesv1.WatchRequest{Domain: domain}, connect.CodeInvalidArgument, "pod.id"},
		"no domain":         {&rulesv1.WatchRequest{Pod: &rulesv1.Pod{Id: "a"}}, connect.CodeInvalidArgument, "domain"},
		"a bad revision":    {&rulesv1.WatchRequest{Domain: domain, Pod: &rulesv1.Pod{Id: "a"}, Revision: -1}, connect.CodeInvalidArgument, "revision is -1: want 0 or more"},
		"an unknown domain": {&rulesv1.WatchRequest{Domain: "nobodys", Pod: &rulesv1.Pod{Id: "a"}}, connect.CodeNotFound, "nobodys"},
	} {
		t.Run(name, func(t *testing.T) {
			stream, err := client.Watch(t.Context(), c.q)
			if err != nil {
				t.Fatal(err)
			}
			if stream.Receive() || connect.CodeOf(stream.Err()) != c.code || !strings.Contains(stream.Err().Error(), c.want) {
				t.Errorf("got %v, %v", stream.Msg(), stream.Err())
			}
		})
	}
}
