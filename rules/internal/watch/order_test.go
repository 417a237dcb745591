package watch_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/watch"
)

// Whoever watches, by whatever protocol, however often it goes away and comes
// again: it is told every change, in order and without a gap, and has in the end
// what was written.
func TestEveryWatcherSeesEveryChangeInOrder(t *testing.T) {
	const watchers, changes, accounts = 40, 250, 30
	s := newStage(t, watch.Config{Changes: 64}) // some come back too late for it
	var pods sync.WaitGroup
	for i := range watchers {
		p := newPod(t, s, i)
		pods.Go(func() {
			for p.revision < changes+1 {
				p.visit(t, changes+1, rand.IntN(40)+1)
			}
			p.check(t, s)
		})
	}
	for i := range changes {
		s.put(t, int64(i)+2, rand.IntN(accounts), 1+rand.IntN(3), 20)
	}
	pods.Wait()
	if s.count("shiplane_rules_watch_revision{domain=\"public-api\"}") != "251" {
		t.Error("the revision that is sent is not in the metrics")
	}
}

// visit watches for so many messages, or until it has a revision, and goes away.
func (p *pod) visit(t *testing.T, last int64, messages int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := p.watch(ctx)
	if err != nil {
		t.Errorf("a watch does not begin: %v", err)
		return
	}
	p.joining = nil
	had := p.revision
	for ; p.revision < last && messages > 0; messages-- {
		if !stream.Receive() {
			if err := stream.Err(); connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("a watch ended: %v", err)
			}
			return
		}
		p.take(t, stream.Msg())
		if p.revision < had {
			t.Errorf("a watch leads back from revision %d to %d", had, p.revision)
		}
		had = p.revision
	}
}

// A watcher is sent what it lacks: the changes after its revision as long as they
// are kept, else the whole; nothing if it lacks nothing.
func TestResume(t *testing.T) {
	s := newStage(t, watch.Config{Changes: 3, Ahead: 1}) // a nanosecond: nothing is waited for
	for revision := int64(2); revision <= 10; revision += 2 {
		s.put(t, revision, 0, 1, 0)
	}
	for name, c := range map[string]struct {
		have          int64
		wholes, steps int
	}{
		"nothing":                                {0, 1, 0},
		"all":                                    {10, 0, 0},
		"the oldest that is kept":                {4, 0, 3},
		"one that is not kept any more":          {2, 1, 0},
		"one that never was":                     {5, 1, 0},
		"one of the future: a restored database": {11, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, s, 1)
			p.revision = c.have
			stream := p.mustWatch(t)
			steps := 0
			for stream.Receive() && stream.Msg().GetHeartbeat() == nil {
				p.take(t, stream.Msg())
				if stream.Msg().GetChanges() != nil {
					steps++
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			if p.revision != 10 || stream.Msg().GetHeartbeat().GetRevision() != 10 || p.wholes != c.wholes || steps != c.steps {
				t.Errorf("sent %d times the whole and %d changes, to revision %d; want %d, %d, 10", p.wholes, steps, p.revision, c.wholes, c.steps)
			}
		})
	}
}

// A watcher that another instance has told more is not sent an older whole: what
// it has comes here, too.
func TestRevisionThatIsAheadIsWaitedFor(t *testing.T) {
	s := newStage(t, watch.Config{})
	p := newPod(t, s, 1)
	p.revision = 3
	stream := p.mustWatch(t)
	s.put(t, 2, 0, 1, 0)
	s.put(t, 3, 0, 1, 0)
	s.put(t, 4, 0, 1, 0)
	p.follow(t, stream, 4)
	if p.wholes != 0 {
		t.Error("the whole was sent")
	}
}

// When the whole is new, everybody is sent it, also at a lower revision, and goes
// on from there.
func TestResetIsSentToAll(t *testing.T) {
	s := newStage(t, watch.Config{})
	s.put(t, 9, 0, 1, 0)
	p := newPod(t, s, 1)
	stream := p.mustWatch(t)
	p.follow(t, stream, 9)
	s.reset(t, 5)
	p.follow(t, stream, 5)
	s.put(t, 6, 0, 1, 0)
	p.follow(t, stream, 6)
	p.check(t, s)
	if p.wholes != 2 {
		t.Errorf("the whole was sent %d times, want 2", p.wholes)
	}
}

// A domain that has lost all its rules is no rules to send: pods keep those that
// they have.
func TestDomainWithoutRulesIsNotSent(t *testing.T) {
	s := newStage(t, watch.Config{})
	p := newPod(t, s, 2)
	stream := p.mustWatch(t)
	p.follow(t, stream, 1)
	s.Reset(domain, ruleset.Empty(domain))
	for stream.Receive() {
		p.take(t, stream.Msg())
	}
	if connect.CodeOf(stream.Err()) != connect.CodeNotFound || p.revision != 1 {
		t.Errorf("the watch ended at revision %d with %v", p.revision, stream.Err())
	}
	if again := p.mustWatch(t); again.Receive() || connect.CodeOf(again.Err()) != connect.CodeNotFound {
		t.Errorf("another watch ended with %v", again.Err())
	}
}

// A change of many megabytes, as the import of a file is, reaches everybody in
// parts that every client takes.
func TestHugeChangeIsSentInParts(t *testing.T) {
	s := newStage(t, watch.Config{})
	p := newPod(t, s, 2)
	stream := p.mustWatch(t)
	p.follow(t, stream, 1)
	s.put(t, 2, 0, 2000, 1000)
	p.follow(t, stream, 2)
	p.check(t, s)
	if p.wholes != 2 || p.parts < 20 {
		t.Errorf("the whole was sent %d times in %d parts, want 2 and more than 20", p.wholes, p.parts)
	}
	s.put(t, 3, 0, 1, 0)
	p.follow(t, stream, 3)
	p.check(t, s)
}

// Pods that come all at once, and again a few changes later, cost one encoding of
// the whole.
func TestStampedeCostsOneEncoding(t *testing.T) {
	const watchers = 30
	s := newStage(t, watch.Config{})
	s.put(t, 2, 0, 200, 100)
	s.reset(t, 3)
	wave := func(revision int64) {
		var pods sync.WaitGroup
		for i := range watchers {
			p := newPod(t, s, i)
			pods.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stream, err := p.watch(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				for p.revision < revision && stream.Receive() {
					p.take(t, stream.Msg())
				}
				p.check(t, s)
			})
		}
		pods.Wait()
	}
	wave(3)
	for revision := int64(4); revision <= 10; revision++ {
		s.put(t, revision, int(revision), 3, 100)
	}
	wave(10)
	if got := s.count("shiplane_rules_watch_snapshots_encoded_total"); got != "1" {
		t.Errorf("the whole was encoded %s times", got)
	}
}

// A message says the server's time when it is sent, not when it was encoded.
func TestTimeIsOfTheSending(t *testing.T) {
	s := newStage(t, watch.Config{})
	s.put(t, 2, 0, 1, 0)
	var before *rulesv1.WatchResponse
	for range 2 {
		p := newPod(t, s, 4)
		p.revision = 1
		stream := p.mustWatch(t)
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
		m := stream.Msg()
		if before != nil {
			if !m.GetNow().AsTime().After(before.GetNow().AsTime()) {
				t.Errorf("sent at %v and then at %v", before.GetNow().AsTime(), m.GetNow().AsTime())
			}
			if !proto.Equal(m.GetChanges(), before.GetChanges()) {
				t.Errorf("sent %v and then %v", before, m)
			}
		}
		before = m
	}
}

// When an instance drains, all its watches end with UNAVAILABLE, and none begins.
func TestDrain(t *testing.T) {
	s := newStage(t, watch.Config{})
	var pods sync.WaitGroup
	for i := range 10 {
		p := newPod(t, s, i)
		stream := p.mustWatch(t)
		p.follow(t, stream, 1)
		pods.Go(func() {
			for stream.Receive() {
				p.take(t, stream.Msg())
			}
			if connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
				t.Errorf("a watch ended with %v", stream.Err())
			}
		})
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	pods.Wait()
	if got := s.count(`shiplane_rules_watches_cut_total{reason="draining"}`); got != "10" {
		t.Errorf("%s watches were cut, want 10", got)
	}
	stream := newPod(t, s, 1).mustWatch(t)
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Errorf("a watch began at an instance that drains: %v", stream.Err())
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Errorf("draining twice: %v", err)
	}
}

// An instance takes so many watchers and no more, and takes another when one goes.
func TestWatchersAreBounded(t *testing.T) {
	s := newStage(t, watch.Config{Watchers: 1})
	ctx, leave := context.WithCancel(t.Context())
	first := newPod(t, s, 1)
	stream, err := first.watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first.follow(t, stream, 1)
	second := newPod(t, s, 1)
	refused := second.mustWatch(t)
	if refused.Receive() || connect.CodeOf(refused.Err()) != connect.CodeUnavailable {
		t.Errorf("a second watcher got %v, %v", refused.Msg(), refused.Err())
	}
	leave()
	for second.revision == 0 { // the first is gone when the server has noticed it
		stream := second.mustWatch(t)
		if stream.Receive() {
			second.take(t, stream.Msg())
		} else if connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
			t.Fatal(stream.Err())
		}
	}
}

// A watch ends when its token is void: who may watch is asked again with each
// heartbeat.
func TestPermissionIsAskedAgain(t *testing.T) {
	revoked := make(chan struct{})
	permit := func(context.Context) error {
		select {
		case <-revoked:
			return connect.NewError(connect.CodeUnauthenticated, errors.New("revoked"))
		default:
			return nil
		}
	}
	s := newStage(t, watch.Config{Permit: permit, Heartbeat: 1000})
	p := newPod(t, s, 1)
	stream := p.mustWatch(t)
	p.follow(t, stream, 1)
	close(revoked)
	for stream.Receive() {
		p.take(t, stream.Msg())
	}
	if connect.CodeOf(stream.Err()) != connect.CodeUnauthenticated {
		t.Errorf("the watch ended with %v", stream.Err())
	}
	if again := p.mustWatch(t); again.Receive() || connect.CodeOf(again.Err()) != connect.CodeUnauthenticated {
		t.Errorf("another watch ended with %v", again.Err())
	}
}
