package limiter

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/memory"
	"github.com/shiplane/limits/libs/table"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected part of testdata/*.txt")

// The path does what testdata's scenarios show. A line that is not indented is
// a command, the indented ones below it are what came of it:
//
//	rule ID KIND [rate=R/s burst=B | count=N window=D [algorithm=sliding_log]] [mode=shadow] [fail=closed] [check=after]
//	edit ID rate=… burst=…         the rule's limit from now on
//	ban ID, unban ID               an override that denies
//	at T check [pod=N] KIND=NAME… [cost=N]
//	at T errands                   what was left for later is carried out
//	at T sweep                     the same, after what is surplus was collected
//	at T drain pod=N               the pod stops
//	at T load [pod=N] KIND=NAME… cost=N every=D until=T    sums up what became of it
//	pods N                         live pods of the region; 2 at first
//	at T stats pod=N               what the pod has counted
//	told                           what shadow rules have said so far
//	store down|slow|up             how the store answers from now on
//	store flapping N               every Nth call fails
//	store clock D                  steps the store's clock
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newWorld(t).play(string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("(-want +got; go test ./libs/limiter -rewrite accepts it)\n%s", diff)
			}
		})
	}
}

// world is some pods' cores, one store and a clock.
type world struct {
	*testing.T
	now, step time.Duration // the pods' clock, and what the store's was stepped by
	store     *memory.Store
	fault     error
	failEvery int // 0: each call meets the fault
	calls     int
	returned  []handBack
	members   int
	revision  int64
	pods      map[string]*Core
	order     []*Core
	rules     []*limit.Rule
	banned    map[string]bool
	told      []string
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, members: 2, pods: map[string]*Core{}, banned: map[string]bool{}}
	var err error
	w.store, err = memory.New(memory.Config{Now: func() time.Duration { return 12*time.Hour + w.now + w.step }, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) play(text string) string {
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		for _, result := range w.do(words) {
			out.WriteString("  " + result + "\n")
		}
	}
	return out.String()
}

func (w *world) do(words []string) []string {
	switch words[0] {
	case "at":
		at := w.duration(words[1])
		if at < w.now {
			w.Fatalf("%v is before %v", at, w.now)
		}
		w.now = at
		return w.do(words[2:])
	case "rule":
		w.rules = append(w.rules, w.rule(words[1], words[2], words[3:]))
	case "edit":
		w.revision++
		for i, r := range w.rules {
			if r.ID == words[1] {
				w.rules[i] = w.rule(r.ID, r.Kind.String(), words[2:])
			}
		}
	case "pods":
		w.members = int(w.number(words[1]))
	case "ban", "unban":
		w.banned[words[1]] = words[0] == "ban"
	case "store":
		switch words[1] {
		case "down":
			w.fault = fmt.Errorf("shard 7: %w", store.ErrUnavailable)
		case "slow":
			w.fault = fmt.Errorf("shard 7: %w", store.ErrTimeout)
		case "flapping":
			w.fault, w.failEvery = fmt.Errorf("shard 7: %w", store.ErrTimeout), int(w.number(words[2]))
		case "up":
			w.fault, w.failEvery = nil, 0
		case "clock":
			w.step += w.duration(words[2])
		}
	case "check":
		var decision limit.Decision
		w.check(words[1:], &decision)
		return describe(&decision)
	case "load":
		return w.load(words[1:])
	case "errands":
		return w.errands()
	case "sweep":
		for _, c := range w.order {
			c.Sweep(w.now)
		}
		return w.errands()
	case "drain":
		w.pod(strings.TrimPrefix(words[1], "pod=")).Drain(w.now)
		return w.errands()
	case "stats":
		return describeStats(w.pod(strings.TrimPrefix(words[1], "pod=")).Stats())
	case "told":
		out := w.told
		w.told = nil
		return out
	default:
		w.Fatalf("unknown command %q", words[0])
	}
	return nil
}

// load sends a check every so often and sums up who decided them.
func (w *world) load(words []string) []string {
	var every, until time.Duration
	var check []string
	for _, word := range words {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "every":
			every = w.duration(value)
		case "until":
			until = w.duration(value)
		default:
			check = append(check, word)
		}
	}
	calls := w.calls
	sums := map[string]int{}
	for ; w.now < until; w.now += every {
		var decision limit.Decision
		w.check(check, &decision)
		sums[fmt.Sprintf("%s by=%s", decision.Verdict, decision.DecidedBy)]++
		w.errands() // they are carried at once
		w.sweepIfDue(every)
	}
	out := []string{fmt.Sprintf("%d store calls", w.calls-calls)}
	for _, what := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, fmt.Sprintf("%d %s", sums[what], what))
	}
	return out
}

// sweepIfDue sweeps as often as the shell does, while a load runs.
func (w *world) sweepIfDue(every time.Duration) {
	if w.now/SweepEvery != (w.now+every)/SweepEvery {
		for _, c := range w.order {
			c.Sweep(w.now)
		}
		w.errands()
	}
}

func (w *world) check(words []string, decision *limit.Decision) {
	pod, cost := "1", int64(1)
	subjects := map[limit.Kind]limit.Subject{}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "pod":
			pod = value
		case "cost":
			cost = w.number(value)
		default:
			s, err := limit.NewSubject("test", w.kind(name), value)
			if err != nil {
				w.Fatal(err)
			}
			subjects[s.Kind()] = s
		}
	}
	var request limit.Request
	for _, kind := range []limit.Kind{limit.IP, limit.User, limit.Account} {
		for _, r := range w.rules {
			if s, ok := subjects[kind]; ok && r.Kind == kind {
				request.Charges = append(request.Charges, limit.Charge{Subject: s, Rule: r, Limit: r.Limit, Cost: r.Charge(cost), Banned: w.banned[r.ID], Revision: w.revision})
			}
		}
	}
	w.decide(w.pod(pod), &request, decision)
}

// decide drives a core as the shell does, one request at a time.
func (w *world) decide(c *Core, request *limit.Request, decision *limit.Decision) {
	if c.DecideLocally(w.now, request, decision) {
		return
	}
	var call Call
	for step := c.Decide(w.now, request, decision, &call); step != StepDone; {
		if step != StepAsk {
			w.Fatalf("step %d of a request that is alone", step)
		}
		step = c.Apply(w.now, &call, w.take(call.Ask(), call.Result()))
		if len(call.Wakes()) > 0 {
			w.Fatalf("%d others are woken by a request that is alone", len(call.Wakes()))
		}
	}
}

// errands runs what is in the pods' outboxes and says what came of it.
func (w *world) errands() []string {
	var out []string
	for _, c := range w.order {
		for _, e := range c.Errands() {
			var result store.Result
			e.Sent = w.now
			if err := w.take(&e.Ask, &result); err != nil {
				c.Unsettled(&e)
				out = append(out, "dropped: "+err.Error())
				continue
			}
			c.Settle(w.now, &e, &result)
			out = append(out, describeErrand(&e, &result))
		}
	}
	return out
}

func (w *world) take(ask *store.Ask, result *store.Result) error {
	w.calls++
	if w.fault != nil && (w.failEvery == 0 || w.calls%w.failEvery == 0) {
		return w.fault
	}
	w.note(ask)
	return w.store.Take(context.Background(), ask, result)
}

func (w *world) pod(name string) *Core {
	if w.pods[name] == nil {
		tell := func(r *limit.Rule, requests, short int64) {
			w.told = append(w.told, fmt.Sprintf("%s: %d requests, %d short", r.ID, requests, short))
		}
		c, err := NewCore(CoreConfig{Bounds: table.DefaultBounds, Shards: 1, Seed: uint64(len(w.pods)) << 32, Pods: func() int { return w.members }, Paced: true, Tell: tell})
		if err != nil {
			w.Fatal(err)
		}
		w.pods[name] = c
		w.order = append(w.order, c)
	}
	return w.pods[name]
}

func describe(d *limit.Decision) []string {
	head := fmt.Sprintf("%s by=%s", d.Verdict, d.DecidedBy)
	if d.Refused >= 0 {
		head += " refused=" + d.Outcomes[d.Refused].Rule.ID
	}
	if after, ok := d.RetryAfter(); ok {
		head += fmt.Sprint(" retry=", after)
	}
	if d.Cause != nil {
		head += " cause=" + strconv.Quote(d.Cause.Error())
	}
	out := []string{head}
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		line := "  " + o.Rule.ID
		if o.Known {
			line += fmt.Sprintf(" remaining=%d reset=%v", o.Remaining, o.Reset)
		}
		if o.Short {
			line += " short"
		}
		if o.Never {
			line += " never"
		}
		out = append(out, line)
	}
	return out
}

func describeErrand(e *Errand, result *store.Result) string {
	line := e.Ask.Subject.String()
	for i, entry := range e.Ask.Entries {
		o := result.Outcomes[i]
		line += fmt.Sprintf("  %s give=%d want=%d granted=%d remaining=%d", entry.Rule.ID, entry.Give, entry.Want, o.Granted, o.Remaining)
	}
	return line
}

func (w *world) rule(id, kind string, words []string) *limit.Rule {
	r := &limit.Rule{Domain: "test", ID: id, Kind: w.kind(kind), Algorithm: limit.TokenBucket, Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "rate":
			rate, err := limit.ParseRate(value)
			if err != nil {
				w.Fatal(err)
			}
			r.Limit.Rate = rate
		case "burst":
			r.Limit.Burst = w.number(value)
		case "count":
			r.Limit.Count, r.Algorithm = w.number(value), max(r.Algorithm, limit.FixedWindow)
		case "window":
			r.Limit.Window = w.duration(value)
		case "algorithm":
			r.Algorithm = limit.SlidingLog
		case "mode":
			r.Mode = limit.Shadow
		case "check":
			r.Check = limit.CheckAfter
		case "fail":
			r.FailMode = limit.FailClosed
		default:
			w.Fatalf("unknown word %q", word)
		}
	}
	r.Tag = limit.TagOf(r.Domain, r.ID, r.Algorithm)
	return r
}

func (w *world) kind(name string) limit.Kind {
	kind, ok := map[string]limit.Kind{"ip": limit.IP, "user": limit.User, "account": limit.Account}[name]
	if !ok {
		w.Fatalf("unknown kind %q", name)
	}
	return kind
}

func (w *world) number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		w.Fatal(err)
	}
	return d
}
