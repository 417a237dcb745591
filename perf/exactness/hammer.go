package exactness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
)

// The accounts and their rules. The first of them refill, some faster than
// others; those from onceFrom on have a burst that is gone for good.
const (
	Accounts   = 100
	onceFrom   = 80
	onceBurst  = 500
	routes     = 2 // rules of an account besides its own
	givesEvery = 8 // a process hands back what it holds with every so many asks
)

// limitOf is the limit of a bucket, as whole tokens a second and a burst.
func limitOf(b Bucket) (rate, burst int64) {
	switch {
	case b.Account >= onceFrom && b.Rule == 0:
		return 0, onceBurst
	case b.Rule == 0:
		rate = int64(20 + b.Account)
		return rate, 2 * rate
	}
	return 1000, 2000
}

// entryOf is the bucket in an ask, without what is asked of it.
func entryOf(b Bucket) store.Entry {
	rate, burst := limitOf(b)
	l := limit.Limit{Rate: limit.Rate(rate), Burst: burst}
	if rate == 0 {
		l.Rate = limit.RateMin
	}
	id := "account"
	if b.Rule > 0 {
		id = "route-" + strconv.Itoa(b.Rule)
	}
	r := &limit.Rule{
		Domain: "exactness", ID: id, Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: l,
		Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests, Tag: limit.TagOf("exactness", id, limit.TokenBucket),
	}
	return store.Entry{Rule: r, Limit: l}
}

// subjectOf names an account.
func subjectOf(account int) (limit.Subject, error) {
	return limit.NewSubject("exactness", limit.Account, "acct_"+strconv.Itoa(account))
}

// Tally is what one process saw.
type Tally struct {
	Events           []Event
	Granted, Refused int64 // asks
	Unknown          []string
}

// costs of requests, and how much of a lease is asked for besides.
var (
	costs  = [...]int64{1, 1, 1, 1, 2, 3, 5, 10, 25, 50}
	leases = [...]int64{0, 0, 0, 5, 40}
)

// Hammer charges random accounts by so many goroutines until ctx ends. An ask
// that gets no answer is noted as unknown.
func Hammer(ctx context.Context, s store.Store, goroutines int, seed uint64) (Tally, error) {
	var subjects [Accounts]limit.Subject
	for i := range subjects {
		var err error
		if subjects[i], err = subjectOf(i); err != nil {
			return Tally{}, err
		}
	}
	tallies := make([]Tally, goroutines)
	var working sync.WaitGroup
	for i := range tallies {
		working.Go(func() {
			w := worker{store: s, random: rand.New(rand.NewPCG(seed, uint64(i))), subjects: &subjects, held: map[Bucket]lease{}}
			for ctx.Err() == nil {
				w.ask(context.WithoutCancel(ctx))
			}
			tallies[i] = w.Tally
		})
	}
	working.Wait()
	var all Tally
	for _, t := range tallies {
		all.Events = append(all.Events, t.Events...)
		all.Granted, all.Refused, all.Unknown = all.Granted+t.Granted, all.Refused+t.Refused, append(all.Unknown, t.Unknown...)
	}
	return all, nil
}

// worker is one goroutine that asks, one ask after the other.
type worker struct {
	Tally
	store    store.Store
	random   *rand.Rand
	subjects *[Accounts]limit.Subject
	held     map[Bucket]lease
	asks     int
}

// lease is what was granted beyond the need and can be handed back.
type lease struct {
	n    int64
	from time.Duration
}

func (w *worker) ask(ctx context.Context) {
	account := w.random.IntN(Accounts)
	buckets := [...]Bucket{{account, 0}, {account, 1 + w.random.IntN(routes)}}
	cost := costs[w.random.IntN(len(costs))]
	ask := store.Ask{Subject: w.subjects[account]}
	w.asks++
	for _, b := range buckets {
		e := entryOf(b)
		e.Need, e.Want = cost, cost
		if rate, _ := limitOf(b); rate > 0 { // what is gone for good is not lent: nothing comes back after the last ask
			e.Want += leases[w.random.IntN(len(leases))]
		}
		if l := w.held[b]; w.asks%givesEvery == 0 && l.n > 0 {
			e.Give, e.GivenFrom = l.n, l.from
		}
		ask.Entries = append(ask.Entries, e)
	}
	var result store.Result
	if err := w.store.Take(ctx, &ask, &result); err != nil {
		w.Unknown = append(w.Unknown, fmt.Sprintf("account %d: %v", account, err))
		return
	}
	if result.Allowed {
		w.Granted++
	} else {
		w.Refused++
	}
	for i, b := range buckets {
		e, granted := &ask.Entries[i], result.Outcomes[i].Granted
		if e.Give > 0 {
			w.Events = append(w.Events, Event{b, result.At, -e.Give})
			delete(w.held, b)
		}
		if granted > 0 {
			w.Events = append(w.Events, Event{b, result.At, granted})
			if beyond := granted - e.Need; beyond > 0 {
				w.held[b] = lease{w.held[b].n + beyond, result.At}
			}
		}
	}
}
