package book

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	// pollEvery is how late a change is seen at most whose hint was lost.
	pollEvery = time.Second
	// pollBlind is the same while hints do not come, behind a transaction pooler
	// for instance: a query four times a second and instance.
	pollBlind = 250 * time.Millisecond
	// falseHintPause keeps hints for nothing from becoming a busy loop.
	falseHintPause = 20 * time.Millisecond

	// While the store is away it is tried after retryFirst, then ever later up to
	// retryLast, each ± half: instances do not come back in step, and pods have a
	// change within 5 s of the store's return.
	retryFirst = 100 * time.Millisecond
	retryLast  = 2 * time.Second

	// pageEntries bounds what one look at the log brings, a revision more or less.
	pageEntries = 1000

	readTimeout     = 5 * time.Second
	openTimeout     = 5 * time.Second  // a store that hangs does not keep the process from its start
	snapshotTimeout = 30 * time.Second // 100,000 overrides, over a slow line
)

// Run follows the store until ctx ends. It is called once. A store that cannot be
// reached is asked again and again, and logged once.
func (b *Book) Run(ctx context.Context) {
	b.resetAll(nil)
	retry := &backoff.ExponentialBackOff{InitialInterval: retryFirst, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: retryLast}
	away := false
	hinted := true
	for ctx.Err() == nil {
		news, err := b.catchUp(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if !away {
				b.log.Error("rules store cannot be read: the rules as last seen stay", "error", err)
				retry.Reset()
			}
			away = true
			pause(ctx, retry.NextBackOff())
			continue
		case away:
			away = false
			b.log.Info("rules store is read again", "revision", b.state.Load().head)
		case hinted && !news:
			pause(ctx, falseHintPause)
		}
		hinted = b.await(ctx)
	}
}

// await returns when it is time to look again, and whether because of a hint.
func (b *Book) await(ctx context.Context) (hinted bool) {
	waiting, cancel := context.WithTimeout(ctx, pollEvery)
	defer cancel()
	err := b.store.Wait(waiting, b.state.Load().head)
	if err == nil {
		return true
	}
	if waiting.Err() == nil {
		pause(ctx, pollBlind)
	}
	return false
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// catchUp brings the state to the store's last revision, and tells the listener.
// news is whether there was anything.
func (b *Book) catchUp(ctx context.Context) (news bool, err error) {
	if b.state.Load() == nil {
		return true, b.snapshotAndReset(ctx)
	}
	for {
		entries, err := b.since(ctx, b.state.Load().head)
		switch {
		case errors.Is(err, ledger.ErrCompacted):
			b.log.Warn("what came after the rules as last seen is not known: all is read anew", "revision", b.state.Load().head)
			return true, b.snapshotAndReset(ctx)
		case err != nil:
			return news, err
		}
		if len(entries) == 0 {
			return news, nil
		}
		news = true
		if b.advance(entries) {
			return true, b.snapshotAndReset(ctx)
		}
	}
}

func (b *Book) since(ctx context.Context, revision int64) ([]ledger.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return b.store.Since(ctx, revision, pageEntries)
}

// advance takes entries, whole revisions only, one revision after another. It
// returns whether the whole is to be read anew: what a domain lacked because it had
// a fault is not in the changes that mend it.
func (b *Book) advance(entries []ledger.Entry) (anew bool) {
	for batch := range revisions(entries) {
		before := b.state.Load().domain(batch.domain)
		next, faults := b.state.Load().with(batch)
		if len(faults) > 0 {
			b.log.Error("rules of the store have faults: what is faulty stays as it was", "domain", batch.domain, "revision", batch.revision, "error", faults)
		}
		b.state.Store(next)
		if b.listener != nil {
			b.listener.Changed(batch.domain, before.revision, batch.revision, batch.changes, next.domains[batch.domain].rules)
		}
		anew = anew || before.faulty
	}
	return anew
}

// snapshot makes the state from the whole of the store.
func (b *Book) snapshot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	whole, err := b.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	next, faults := newState(whole)
	for domain, f := range faults {
		b.log.Error("rules of the store have faults: what is faulty is left out", "domain", domain, "revision", whole.Revision, "error", f)
	}
	b.state.Store(next)
	return nil
}

func (b *Book) snapshotAndReset(ctx context.Context) error {
	before := b.state.Load()
	if err := b.snapshot(ctx); err != nil {
		return err
	}
	b.resetAll(before)
	return nil
}

// resetAll tells the listener of every domain that there is, and of those that
// there were.
func (b *Book) resetAll(before *state) {
	now := b.state.Load()
	if b.listener == nil || now == nil {
		return
	}
	for name, d := range now.domains {
		b.listener.Reset(name, d.rules)
	}
	if before == nil {
		return
	}
	for name := range before.domains {
		if _, still := now.domains[name]; !still {
			b.listener.Reset(name, emptied(name))
		}
	}
}
