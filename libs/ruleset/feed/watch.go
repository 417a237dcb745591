package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const (
	firstWait   = 10 * time.Second       // for the first message; then the heartbeats say
	beats       = 3                      // heartbeats that may be missing
	everyMin    = 100 * time.Millisecond // of a heartbeat that is believed
	everyMax    = time.Minute
	snapshotMax = 250_000 // items of one ruleset: more than any valid one has
)

// Why a watch ends that the service did not end.
var (
	errSilent = errors.New("the rules service was silent for too long")
	errGap    = errors.New("the rules service is not where this pod is: asking it anew")
	errBroken = errors.New("the rules service sent what makes no sense")
)

// follow watches, at one address after another, until ctx ends.
func (f *Feed) follow(ctx context.Context) {
	pace, told := newPace(len(f.services)), connect.Code(0)
	for {
		began, at := time.Now(), f.services[pace.address()]
		err := f.watch(ctx, at)
		if ctx.Err() != nil {
			f.contact.down(nil)
			return
		}
		if f.contact.down(err) {
			told = 0
			f.log.Info("the watch of the rules has ended: another one begins", "address", at.address, "error", err)
		} else if code := connect.CodeOf(err); code != told {
			told = code
			f.tellAway(at, code, err)
		}
		wait := time.NewTimer(pace.ended(time.Since(began)))
		select {
		case <-ctx.Done():
		case <-f.token.Changed():
		case <-wait.C:
		}
		wait.Stop()
	}
}

// tellAway logs the first of attempts that fail in the same way.
func (f *Feed) tellAway(at *service, code connect.Code, err error) {
	level := f.log.Warn // it may come back by itself
	switch code {
	case connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeUnimplemented:
		level = f.log.Error // somebody has to do something
	}
	what := "the rules service cannot be watched: the rules in force stay"
	if f.Ready() != nil {
		what = "the rules service cannot be watched, and there are no rules yet"
	}
	level(what, "address", at.address, "revision", f.Status().Revision, "error", err)
}

// watch follows one service until it ends or fails.
func (f *Feed) watch(ctx context.Context, at *service) error {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{feed: f, sent: f.ask(), patience: firstWait}
	silence := time.AfterFunc(w.patience, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := at.client.Watch(ctx, &rulesv1.WatchRequest{Domain: f.cfg.Domain, Revision: w.sent, Pod: f.cfg.Pod})
	if err != nil {
		cancel(nil)
		return causeOf(ctx, err)
	}
	defer func() {
		cancel(nil)        // first: a stream that is still open is not read to its end
		_ = stream.Close() // of what was given up
	}()
	f.clock.forget()
	for stream.Receive() {
		now, m := time.Now(), stream.Msg()
		if m.GetNow().IsValid() {
			f.clock.add(m.GetNow().AsTime(), now)
		}
		if f.contact.up(at, now) {
			f.log.Info("watching the rules", "address", at.address, "from_revision", w.sent)
		}
		if err := w.take(m); err != nil {
			return err
		}
		silence.Reset(w.patience)
	}
	return causeOf(ctx, stream.Err())
}

// causeOf is err, or why this end has ended the call.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// ask returns the revision to watch from: 0, for the whole, if not all of this pod's
// is in force.
func (f *Feed) ask() int64 {
	now := f.current.Load()
	if now.rules == nil || len(now.refused) > 0 {
		return 0
	}
	return now.rules.Revision()
}

// watch is one watch under way.
type watch struct {
	feed     *Feed
	sent     int64            // the revision that the service has brought this watch to
	parts    *rulesv1.Ruleset // of a snapshot, so far; nil: none is under way
	patience time.Duration    // for the next message
}

// take takes a message. An error ends the watch.
func (w *watch) take(m *rulesv1.WatchResponse) error {
	switch event := m.GetEvent().(type) {
	case *rulesv1.WatchResponse_Snapshot:
		return w.part(event.Snapshot)
	case *rulesv1.WatchResponse_Changes:
		return w.changes(event.Changes)
	case *rulesv1.WatchResponse_Heartbeat:
		return w.beat(event.Heartbeat)
	}
	return nil // of a service that is newer than this pod
}

// part joins the parts of a snapshot, and puts it in force when it is whole.
func (w *watch) part(s *rulesv1.Snapshot) error {
	p := s.GetPart()
	if p.GetDomain() != w.feed.cfg.Domain || p.GetRevision() < 1 {
		return fmt.Errorf("%w: a snapshot of domain %.70q at revision %d", errBroken, p.GetDomain(), p.GetRevision())
	}
	all := w.parts
	switch {
	case all == nil:
		all = p
	case all.GetRevision() != p.GetRevision():
		return fmt.Errorf("%w: parts of revisions %d and %d", errBroken, all.GetRevision(), p.GetRevision())
	default:
		all.Plans = append(all.Plans, p.GetPlans()...)
		all.Routes = append(all.Routes, p.GetRoutes()...)
		all.Rules = append(all.Rules, p.GetRules()...)
		all.Overrides = append(all.Overrides, p.GetOverrides()...)
		all.Candidates = append(all.Candidates, p.GetCandidates()...)
	}
	if n := len(all.GetPlans()) + len(all.GetRoutes()) + len(all.GetRules()) + len(all.GetOverrides()) + len(all.GetCandidates()); n > snapshotMax {
		return fmt.Errorf("%w: a snapshot of more than %d items", errBroken, snapshotMax)
	}
	if s.GetMore() {
		w.parts = all
		return nil
	}
	w.parts, w.sent = nil, all.GetRevision()
	w.feed.takeWhole(all)
	return nil
}

func (w *watch) changes(c *rulesv1.Changes) error {
	switch now := w.feed.Current(); {
	case w.parts != nil || c.GetRevision() <= c.GetFrom():
		return fmt.Errorf("%w: changes from %d to %d", errBroken, c.GetFrom(), c.GetRevision())
	case now == nil || c.GetFrom() != w.sent || c.GetFrom() != now.Revision():
		// What came before was missed, or was a snapshot that was refused whole.
		return fmt.Errorf("%w: it sent what follows revision %d", errGap, c.GetFrom())
	}
	w.sent = c.GetRevision()
	w.feed.takeChanges(c)
	if _, blamed := w.feed.current.Load().refused[whole]; blamed {
		return fmt.Errorf("%w: what it sent does not fit what is here", errGap)
	}
	return nil
}

func (w *watch) beat(b *rulesv1.Heartbeat) error {
	w.patience = beats * min(max(b.GetEvery().AsDuration(), everyMin), everyMax)
	if w.parts == nil && b.GetRevision() != w.sent {
		return fmt.Errorf("%w: it is at revision %d", errGap, b.GetRevision())
	}
	return nil
}
