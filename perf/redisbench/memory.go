package redisbench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
)

// Memory is what the keys of so many subjects take.
type Memory struct {
	Name     string
	Subjects int
	Counters int   // of each subject
	Bytes    int64 // growth of used_memory
	Budget   int   // bytes a subject, 0: reported only
}

// PerSubject is in bytes.
func (m Memory) PerSubject() float64 { return float64(m.Bytes) / float64(m.Subjects) }

// PerCounter is in bytes.
func (m Memory) PerCounter() float64 { return m.PerSubject() / float64(m.Counters) }

// String is the line of the report.
func (m Memory) String() string {
	text := fmt.Sprintf("%-40s %9d subjects %8.1f B each %7.1f B a counter", m.Name, m.Subjects, m.PerSubject(), m.PerCounter())
	if m.Budget > 0 {
		text += fmt.Sprintf(", budget %d B each", m.Budget)
		if m.PerSubject() > float64(m.Budget) {
			text += "  ABOVE"
		}
	}
	return text
}

// Shape is what each subject has.
type Shape struct {
	Name     string
	Kind     limit.Kind
	ID       func(i int) string
	Rules    []*limit.Rule
	Attempts int // charges of each subject, for logs
	Budget   int
}

// The shapes of the budget: what an account has that uses two rules, and one that
// uses every route of its plan, and what a login costs. Of the bytes of an
// account with two buckets 48 are its record; 80 the string that it lies in, for
// jemalloc's classes are 16 bytes apart and one of more than 44 bytes is
// allocated by itself; 48 its key; 80 the entries of the two dictionaries, that
// of the expiries included; the rest the dictionaries' tables.
var (
	TwoBuckets   = Shape{Name: "an account with two live buckets", Kind: limit.Account, ID: AccountID, Rules: buckets(2), Attempts: 1, Budget: 210}
	SevenBuckets = Shape{Name: "an account with seven live buckets", Kind: limit.Account, ID: AccountID, Rules: buckets(7), Attempts: 1, Budget: 7 * 47}
	OneLogin     = Shape{Name: "a login log of one attempt", Kind: limit.User, ID: userID, Rules: logins(), Attempts: 1}
	FiveLogins   = Shape{Name: "a login log of five attempts", Kind: limit.User, ID: userID, Rules: logins(), Attempts: 5}
)

// AccountID is a merchant's id as they are given out: 8 characters that no other
// has, in no order.
func AccountID(i int) string {
	return "acct_" + strings.ToUpper(fmt.Sprintf("%08s", strconv.FormatUint(uint64(i)*2654435761%(1<<40), 36)))
}

// userID is a name that somebody signs in with: an address of mail.
func userID(i int) string { return fmt.Sprintf("customer.%07d@example.com", i) }

// buckets are rules of an account that does not refill while it is measured.
func buckets(n int) []*limit.Rule {
	var rules []*limit.Rule
	for i := range n {
		rules = append(rules, newRule("growth-"+strconv.Itoa(i), limit.Account, limit.TokenBucket, limit.Limit{Rate: 1.0 / 3600, Burst: 100}))
	}
	return rules
}

func logins() []*limit.Rule {
	return []*limit.Rule{newRule("login-user", limit.User, limit.SlidingLog, limit.Limit{Count: 20, Window: time.Hour})}
}

func newRule(id string, kind limit.Kind, a limit.Algorithm, l limit.Limit) *limit.Rule {
	const domain = "public-api"
	return &limit.Rule{
		Domain: domain, ID: id, Kind: kind, Algorithm: a, Limit: l,
		Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests, Tag: limit.TagOf(domain, id, a),
	}
}

// fillAtOnce bounds the calls in flight while a server is filled.
const fillAtOnce = 128

// MeasureMemory fills an empty cluster of one primary with so many subjects of
// the shape and tells by how much its used_memory grew. The dictionaries that
// hold the keys are of powers of two, so the figure depends on the number a
// little: 100,000 fill theirs to 76 %, 1,000,000 to 95 %.
func MeasureMemory(ctx context.Context, sh Shape, subjects int) (m Memory, err error) {
	cluster, err := testenv.StartRedisCluster(ctx, testenv.RedisClusterConfig{Primaries: 1})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	s, err := rediscluster.New(rediscluster.Config{URL: "redis://" + cluster.Addresses()[0], Timeout: fillTimeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return m, err
	}
	defer s.Close()
	node := cluster.Nodes()[0]
	if err := sh.charge(ctx, s, 0); err != nil { // connections, buffers and the script are no key's
		return m, err
	}
	before, err := usedMemory(ctx, node)
	if err != nil {
		return m, err
	}
	group, within := errgroup.WithContext(ctx)
	for from := range fillAtOnce {
		group.Go(func() error {
			for i := 1 + from; i <= subjects; i += fillAtOnce {
				if err := sh.charge(within, s, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return m, err
	}
	after, err := usedMemory(ctx, node)
	return Memory{Name: sh.Name, Subjects: subjects, Counters: len(sh.Rules), Bytes: after - before, Budget: sh.Budget}, err
}

// charge charges every rule of the i-th subject as often as the shape says. The
// first charge may find no connection yet.
func (sh *Shape) charge(ctx context.Context, s store.Store, i int) error {
	subject, err := limit.NewSubject(sh.Rules[0].Domain, sh.Kind, sh.ID(i))
	if err != nil {
		return err
	}
	ask := store.Ask{Subject: subject}
	for _, r := range sh.Rules {
		ask.Entries = append(ask.Entries, store.Entry{Rule: r, Limit: r.Limit, Need: 1, Want: 1})
	}
	for range sh.Attempts {
		for k := range ask.Entries {
			ask.Entries[k].Member = rand.Uint64()
		}
		var result store.Result
		if err := insist(ctx, func() error { return s.Take(ctx, &ask, &result) }); err != nil {
			return fmt.Errorf("%v: %w", subject, err)
		}
		if !result.Allowed {
			return fmt.Errorf("%v was refused: %+v", subject, result.Outcomes)
		}
	}
	return nil
}

const (
	// fillTimeout is generous: filling a server is no measure of its speed.
	fillTimeout = 5 * time.Second
	// connecting is how long a store may take to be connected.
	connecting = 10 * time.Second
)

// insist repeats what fails because there is no connection yet.
func insist(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	for {
		err := do()
		if !errors.Is(err, store.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// usedMemory is what the server has allocated, clients' buffers left out.
func usedMemory(ctx context.Context, node *testenv.Node) (int64, error) {
	info, err := node.Do(ctx, "INFO", "memory").ToString()
	if err != nil {
		return 0, err
	}
	used, err := field(info, "used_memory")
	if err != nil {
		return 0, err
	}
	clients, err := field(info, "mem_clients_normal")
	return used - clients, err
}

// field is a number of INFO.
func field(info, name string) (int64, error) {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no %s", name)
}
