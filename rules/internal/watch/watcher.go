package watch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// controlKey is the context's key of the *http.ResponseController of a call.
type controlKey struct{}

// past is a deadline that is over.
var past = time.Unix(1, 0)

// watcher is one call of Watch. It runs in one goroutine.
type watcher struct {
	hub      *Hub
	domain   *domain
	conn     connect.StreamingHandlerConn
	control  *http.ResponseController // nil if the server has none
	at       position                 // what is sent next
	revision int64                    // what it has been sent
	out      sending                  // one for all messages, so that none allocates it
	stall    *time.Timer

	mu      sync.Mutex // against stalled, which the timer calls
	sending bool
	slow    bool
}

// Watch implements WatchService.
func (h *Hub) Watch(ctx context.Context, q *rulesv1.WatchRequest, stream *connect.ServerStream[rulesv1.WatchResponse]) error {
	err := h.watch(ctx, q, stream.Conn())
	h.meter.ended(ctx, err)
	return failure(err)
}

func (h *Hub) watch(ctx context.Context, q *rulesv1.WatchRequest, conn connect.StreamingHandlerConn) error {
	if err := h.cfg.Permit(ctx); err != nil {
		return err
	}
	if err := checkWatch(q); err != nil {
		return err
	}
	d, err := h.find(q.GetDomain())
	if err != nil {
		return err
	}
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.quit, func() { time.AfterFunc(rand.N(drainSpread), func() { cancel(errDraining) }) })()

	w := &watcher{hub: h, domain: d, conn: conn}
	w.control, _ = ctx.Value(controlKey{}).(*http.ResponseController)
	w.stall = time.AfterFunc(h.cfg.Stall, w.stalled)
	defer w.stall.Stop()
	return w.run(ctx, q.GetRevision())
}

// run sends until there is a reason to end.
func (w *watcher) run(ctx context.Context, have int64) error {
	if err := w.begin(ctx, have); err != nil {
		return err
	}
	beat := time.NewTimer(0) // the first at once: it tells that there is nothing to come, and how often one is sent
	defer beat.Stop()
	for ctx.Err() == nil {
		r, wake, err := w.domain.next(w.at)
		switch {
		case errors.Is(err, errAnew):
			err = w.sendWhole(ctx)
		case err != nil:
			return errSlow
		case wake == nil:
			err = w.sendChange(ctx, &r)
		default:
			err = w.wait(ctx, wake, beat)
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// begin finds what the watcher lacks. A revision that this instance does not have
// yet is waited for.
func (w *watcher) begin(ctx context.Context, have int64) error {
	patience := time.NewTimer(w.hub.cfg.Ahead)
	defer patience.Stop()
	w.revision = have
	for {
		var ahead <-chan struct{}
		w.at, ahead = w.domain.locate(have)
		if ahead == nil {
			return nil
		}
		if err := w.send(nil); err != nil { // nothing but the header: the call has arrived
			return err
		}
		select {
		case <-ahead:
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wait returns when there is something to send, and sends heartbeats meanwhile.
func (w *watcher) wait(ctx context.Context, wake <-chan struct{}, beat *time.Timer) error {
	select {
	case <-wake:
	case <-ctx.Done():
	case <-beat.C:
		every := w.hub.cfg.Heartbeat
		beat.Reset(every - rand.N(every/8+1)) // those who are woken by one change need not beat as one
		if err := w.hub.cfg.Permit(ctx); err != nil {
			return err
		}
		e, err := encodeHeartbeat(w.revision, every)
		if err != nil {
			return w.fault(err)
		}
		return w.send(e)
	}
	return nil
}

func (w *watcher) sendChange(ctx context.Context, r *record) error {
	if err := w.send(r.event); err != nil {
		return err
	}
	w.at, w.revision = w.at+1, r.to
	w.hub.meter.sentChange(ctx, time.Since(r.at))
	return nil
}

func (w *watcher) sendWhole(ctx context.Context) error {
	all, made, err := w.domain.snapshot()
	if err != nil {
		return w.fault(err)
	}
	if all.revision == 0 { // a database was put back to before the domain's first rule
		return fmt.Errorf("%w: %s", errNoDomain, w.domain.name)
	}
	for _, part := range all.parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.send(part); err != nil {
			return err
		}
	}
	w.at, w.revision = all.at, all.revision
	w.hub.meter.sentWhole(ctx, made)
	return nil
}

// send returns when the connection has taken the event; nil sends nothing but the
// header. A watcher that does not take it in time is cut.
func (w *watcher) send(e event) error {
	var message any
	if e != nil {
		w.out = sending{event: e, now: time.Now()}
		message = &w.out
	}
	w.expect(true)
	w.stall.Reset(w.hub.cfg.Stall)
	err := w.conn.Send(message)
	w.stall.Stop()
	if w.expect(false) {
		return errSlow
	}
	return err
}

// expect says whether a message is being sent, and returns whether one took too
// long.
func (w *watcher) expect(sending bool) (slow bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sending = sending
	return w.slow
}

// stalled ends a message that is not taken. It does nothing between messages: the
// connection may be another call's by then.
func (w *watcher) stalled() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sending && w.control != nil {
		w.slow = true
		_ = w.control.SetWriteDeadline(past) // the message has ended if this fails
	}
}

func (w *watcher) fault(err error) error {
	w.hub.cfg.Logger.Error("a watch ends", "domain", w.domain.name, "error", err)
	return errEncoding
}
