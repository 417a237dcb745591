package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	// channel is what a write notifies, with its revision, as it commits.
	channel = "shiplane_rules"
	// listenAgain is how long after the loss of its connection the listener makes
	// another, half of it at random, so that instances do not come at once.
	listenAgain = time.Second
	// listenCheck is how often a silent connection is asked whether it lives.
	listenCheck = 15 * time.Second
)

// hints is what is known of the last revision without asking. Its zero value has to be
// given a channel.
type hints struct {
	mu      sync.Mutex
	last    int64         // a revision that there is
	coming  bool          // the listener has its connection
	changed chan struct{} // closed and replaced when one of the others changes
}

// saw notes that a revision was committed.
func (h *hints) saw(revision int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if revision > h.last {
		h.last = revision
		h.wake()
	}
}

// come notes that hints come from now on, after a revision that may be an earlier one
// than was known, if the database was restored. Everybody looks anew.
func (h *hints) come(last int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.coming = last, true
	h.wake()
}

// stop notes that hints come no longer, and tells it those who wait for one.
func (h *hints) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.coming = false
	h.wake()
}

func (h *hints) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// Wait implements ledger.Store. However many wait, there is one connection.
func (s *Store) Wait(ctx context.Context, after int64) error {
	s.hints.mu.Lock()
	last, coming, changed := s.hints.last, s.hints.coming, s.hints.changed
	s.hints.mu.Unlock()
	if last > after {
		return nil
	}
	if !coming {
		return ledger.ErrNoHints
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listen hears of every write, and connects anew until ctx ends.
func (s *Store) listen(ctx context.Context, password func(context.Context) (string, error)) {
	for told := false; ; {
		came, err := s.hear(ctx, password)
		if ctx.Err() != nil {
			return
		}
		if came || !told {
			told = true
			s.log.Warn("hints of new revisions do not come: they are polled for", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(listenAgain/2 + rand.N(listenAgain/2)): //nolint:gosec // no secret
		}
	}
}

// hear listens until the connection ends. came reports whether it ever listened.
func (s *Store) hear(ctx context.Context, password func(context.Context) (string, error)) (came bool, err error) {
	direct := s.direct.Copy()
	if password != nil {
		if direct.Password, err = password(ctx); err != nil {
			return false, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, direct)
	if err != nil {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
		defer cancel()
		conn.Close(ctx)
	}()
	last, err := subscribe(ctx, conn)
	if err != nil {
		return false, err
	}
	s.hints.come(last)
	defer s.hints.stop()
	s.log.Info("hints of new revisions come")
	for {
		if err := s.hearOne(ctx, conn); err != nil {
			return true, err
		}
	}
}

// subscribe makes notifications come and then looks at the last revision: what is
// committed later is notified.
func subscribe(ctx context.Context, conn *pgx.Conn) (last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, slack)
	defer cancel()
	if _, err := conn.Exec(ctx, `LISTEN `+channel); err != nil {
		return 0, err
	}
	var told *pgconn.PgError
	err = conn.QueryRow(ctx, headQuery).Scan(&last)
	if errors.As(err, &told) && told.Code == noSuchTable { // nor a revision then
		return 0, nil
	}
	return last, err
}

// hearOne waits for a notification, and asks now and then whether the connection lives.
func (s *Store) hearOne(ctx context.Context, conn *pgx.Conn) error {
	within, cancel := context.WithTimeout(ctx, listenCheck)
	defer cancel()
	hint, err := conn.WaitForNotification(within)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !conn.IsClosed() {
		alive, cancel := context.WithTimeout(ctx, slack)
		defer cancel()
		return conn.Ping(alive)
	}
	if err != nil {
		return err
	}
	if revision, err := strconv.ParseInt(hint.Payload, 10, 64); err == nil {
		s.hints.saw(revision)
	}
	return nil
}
