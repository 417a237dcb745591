package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/shiplane/limits/rules/internal/ledger"
)

// reader follows a store from revision 0 until it has seen the last revision that it
// is told of, and fails on a gap, a repetition, or what is out of order.
type reader struct {
	seen []ledger.Entry
	err  error
}

func (r *reader) follow(ctx context.Context, s ledger.Store, last func() int64) {
	at := int64(0)
	for {
		end := last()
		entries, err := s.Since(ctx, at, 3)
		if err != nil {
			r.err = err
			return
		}
		for _, e := range entries {
			if e.Revision != at && e.Revision != at+1 {
				r.err = fmt.Errorf("revision %d came after %d", e.Revision, at)
				return
			}
			at = e.Revision
		}
		r.seen = append(r.seen, entries...)
		if end > 0 && at >= end {
			return
		}
		if len(entries) == 0 {
			if err := s.Wait(ctx, at); err != nil && !errors.Is(err, ledger.ErrNoHints) {
				r.err = err
				return
			}
		}
	}
}

// follow starts readers on instances of their own; the result tells when all have seen
// the revision that is given to it, and what they saw.
func (b *bench) follow(readers int) func(last int64) [][]ledger.Entry {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx(), patience)
	b.Cleanup(cancel)
	var mu sync.Mutex
	end := int64(0)
	all := make([]reader, readers)
	var group sync.WaitGroup
	for i := range all {
		s := b.open()
		group.Go(func() {
			all[i].follow(ctx, s, func() int64 {
				mu.Lock()
				defer mu.Unlock()
				return end
			})
		})
	}
	return func(last int64) (seen [][]ledger.Entry) {
		mu.Lock()
		end = last
		mu.Unlock()
		b.put(plan("the-end")) // wakes whoever waits
		group.Wait()
		for i := range all {
			if all[i].err != nil {
				b.Fatalf("reader %d: %v", i, all[i].err)
			}
			seen = append(seen, slices.DeleteFunc(all[i].seen, func(e ledger.Entry) bool { return e.Revision > last }))
		}
		return seen
	}
}

// Whoever writes at once from several instances makes revisions 1, 2, 3 and so on, one
// a write, and every reader sees each of them once, in order.
func orderHasNoGaps(b *bench) {
	const writers, each = 4, 10
	finish := b.follow(2)
	revisions := make([]int64, writers*each)
	var group sync.WaitGroup
	for w := range writers {
		s := b.open()
		group.Go(func() {
			for i := range each {
				id := fmt.Sprintf("p-%d-%d", w, i)
				revision, err := write(b.ctx(), s, entry(plan(id)), entry(plan(id+"-b")))
				if err != nil {
					b.Errorf("write %s: %v", id, err)
				}
				revisions[w*each+i] = revision
			}
		})
	}
	group.Wait()
	slices.Sort(revisions)
	for i, revision := range revisions {
		if revision != int64(i+1) {
			b.Fatalf("revisions are %v, want 1 to %d", revisions, len(revisions))
		}
	}
	for _, seen := range finish(writers * each) {
		if len(seen) != 2*writers*each {
			b.Errorf("a reader saw %d entries, want %d", len(seen), 2*writers*each)
		}
		for i, e := range seen {
			if e.Revision != int64(i/2+1) || e.Ordinal != i%2 || i > 0 && e.At.Before(seen[i-1].At) {
				b.Errorf("entry %d is %d.%d of %v after %v", i, e.Revision, e.Ordinal, e.At, seen[max(i-1, 0)].At)
			}
		}
	}
}

// A writer that began first and commits late cannot be overtaken: a reader never sees
// a later revision before its one.
func slowWriter(b *bench) {
	slow, fast := b.open(), b.open()
	finish := b.follow(3)
	inside, release := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	var slowRevision, fastRevision int64
	group.Go(func() {
		var err error
		slowRevision, err = slow.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) error {
			if err := tx.Append(ctx, entry(plan("slow"))); err != nil {
				return err
			}
			close(inside)
			<-release
			return nil
		})
		if err != nil {
			b.Errorf("the slow write: %v", err)
		}
	})
	<-inside
	started, head := make(chan struct{}), int64(-1)
	group.Go(func() {
		var err error
		close(started)
		fastRevision, err = fast.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) error {
			head = tx.Head()
			return tx.Append(ctx, entry(plan("fast")))
		})
		if err != nil {
			b.Errorf("the fast write: %v", err)
		}
	})
	<-started
	if head := b.head(); head != 0 {
		b.Errorf("the head is %d while the first write is under way, want 0", head)
	}
	close(release)
	group.Wait()
	if slowRevision != 1 || fastRevision != 2 || head != 1 {
		b.Errorf("the first write made revision %d and the second, on top of %d, %d", slowRevision, head, fastRevision)
	}
	for _, seen := range finish(2) {
		b.same("what a reader saw", ids(seen), []string{"1.0 KIND_PLAN slow", "2.0 KIND_PLAN fast"})
	}
}

// What f has appended before it failed is not written, and the next write makes the
// revision that it would have made.
func failedWrite(b *bench) {
	b.put(plan("a"))
	failure := errors.New("on second thoughts")
	_, err := b.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) error {
		if err := tx.Append(ctx, entry(plan("b"))); err != nil {
			return err
		}
		return failure
	})
	if !errors.Is(err, failure) {
		b.Errorf("the write returned %v, want f's error", err)
	}
	if revision := b.put(plan("c")); revision != 2 {
		b.Errorf("the next write made revision %d, want 2", revision)
	}
	b.same("the log", ids(must(b.Since(b.ctx(), 0, 10))(b)), []string{"1.0 KIND_PLAN a", "2.0 KIND_PLAN c"})
}

// A write that appends nothing returns the last revision.
func emptyWrite(b *bench) {
	b.put(plan("a"))
	if revision := b.write(); revision != 1 || b.head() != 1 {
		b.Errorf("it returned %d, and the head is %d; want 1", revision, b.head())
	}
}

// Within a write, and to readers beside it, the ledger is as it was before; its
// entries know their revision and time.
func writeShowsBefore(b *bench) {
	b.put(plan("a"))
	other := b.open()
	revision, err := b.Write(b.ctx(), func(ctx context.Context, tx ledger.Tx) error {
		e := entry(rule("r", 1))
		if err := tx.Append(ctx, e); err != nil {
			return err
		}
		if e.Revision != 2 || e.Ordinal != 0 || !e.At.Equal(tx.Now()) || tx.Now().IsZero() || tx.Head() != 1 {
			b.Errorf("entry %d.%d at %v of a write at %v on head %d", e.Revision, e.Ordinal, e.At, tx.Now(), tx.Head())
		}
		b.same("the log within", ids(must(tx.Since(ctx, 0, 10))(b)), []string{"1.0 KIND_PLAN a"})
		if _, err := tx.Since(ctx, 2, 10); !errors.Is(err, ledger.ErrCompacted) {
			b.Errorf("Since beyond the head: %v, want %v", err, ledger.ErrCompacted)
		}
		if version := must(tx.LastVersion(ctx, domain, kindRule, "r"))(b); version != 0 {
			b.Errorf("the last version is %d within the write that makes it", version)
		}
		b.same("the log beside", ids(must(other.Since(ctx, 0, 10))(b)), []string{"1.0 KIND_PLAN a"})
		return nil
	})
	if err != nil || revision != 2 {
		b.Errorf("revision %d, %v, want 2", revision, err)
	}
}

// Who waits for the right to write and is called off gets the reason, and has written
// nothing.
func writeGivesUp(b *bench) {
	other := b.open()
	_, err := b.Write(b.ctx(), func(ctx context.Context, _ ledger.Tx) error {
		called, cancel := context.WithCancel(ctx)
		cancel()
		_, err := write(called, other, entry(plan("a")))
		if !errors.Is(err, context.Canceled) {
			b.Errorf("the waiting write: %v, want %v", err, context.Canceled)
		}
		return nil
	})
	if err != nil || b.head() != 0 {
		b.Errorf("%v, head %d, want 0", err, b.head())
	}
}
