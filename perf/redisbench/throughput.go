package redisbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"golang.org/x/sync/errgroup"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
)

// ample is a limit that is never reached.
var ample = limit.Limit{Rate: 1e6, Burst: 1e8}

// pipelines is how many connections the bare pipelines use: as many as the store
// has lanes, so that their batches are as large.
const pipelines = 4

// contestant is one way to call the server.
type contestant struct {
	name   string
	limits int // that one call checks
	slice  func(ctx context.Context, length time.Duration) (calls int64, err error)
}

// bench is a server and what calls it.
type bench struct {
	throughputCommand
	node     *testenv.Node
	subjects []limit.Subject
	sha      string // of the script of the bare pipelines
	closers  []func()
}

func (c *throughputCommand) run(ctx context.Context, out io.Writer) (err error) {
	before := runtime.GOMAXPROCS(0) // knows a container's quota, which NumCPU does not
	c.Procs = cmp.Or(c.Procs, max(1, before-1))
	runtime.GOMAXPROCS(c.Procs)
	defer runtime.GOMAXPROCS(before)
	servers, err := testenv.StartRedis(ctx, testenv.RedisConfig{})
	if err != nil {
		return err
	}
	b := &bench{throughputCommand: *c, node: servers.Nodes()[0]}
	defer func() {
		for _, end := range b.closers {
			end()
		}
		err = errors.Join(err, servers.Close())
	}()
	for i := range c.Accounts {
		s, err := limit.NewSubject("public-api", limit.Account, AccountID(i))
		if err != nil {
			return err
		}
		b.subjects = append(b.subjects, s)
	}
	all, err := b.contestants(ctx)
	if err != nil {
		return err
	}
	turns := make([][]turn, len(all))
	for begin := time.Now(); len(turns[0]) == 0 || time.Since(begin) < c.For; {
		for i, one := range all {
			t, err := b.turn(ctx, one)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			turns[i] = append(turns[i], t)
		}
	}
	return report(out, c.Procs, all, turns)
}

func (b *bench) contestants(ctx context.Context) ([]contestant, error) {
	two, one := []*limit.Rule{bucketRule("account"), bucketRule("route")}, []*limit.Rule{bucketRule("account")}
	s, err := rediscluster.New(rediscluster.Config{URL: "redis://" + b.node.Address(), Timeout: fillTimeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, s.Close)
	takeTwo, takeOne := b.take(s, two), b.take(s, one)
	if err := insist(ctx, func() error { return takeTwo(ctx, 0, 0) }); err != nil {
		return nil, err
	}
	pipelined, err := b.bare(ctx, two, pipelines)
	if err != nil {
		return nil, err
	}
	library, err := b.library(two, pipelines)
	if err != nil {
		return nil, err
	}
	single, err := b.bare(ctx, two, b.InFlight)
	if err != nil {
		return nil, err
	}
	// A connection for each call in flight: these clients do not pipeline by themselves.
	client := redis.NewClient(&redis.Options{Addr: b.node.Address(), PoolSize: b.InFlight})
	b.closers = append(b.closers, func() { _ = client.Close() })
	gcra, err := b.throttled(client)
	if err != nil {
		return nil, err
	}
	rate := redis_rate.NewLimiter(client)
	quota := redis_rate.Limit{Rate: int(ample.Rate), Burst: int(ample.Burst), Period: time.Second}
	return []contestant{
		{"rediscluster, 2 buckets", 2, b.calling(takeTwo)},
		{fmt.Sprintf("the same script, bare, %d connections x %d", pipelines, max(1, b.InFlight/pipelines)), 2, pipelined},
		{fmt.Sprintf("the same script, rueidis alone, %d batches x %d", pipelines, max(1, b.InFlight/pipelines)), 2, library},
		{fmt.Sprintf("the same script, bare, %d connections x 1", b.InFlight), 2, single},
		{"rediscluster, 1 bucket", 1, b.calling(takeOne)},
		{"go-redis/redis_rate", 1, b.calling(func(ctx context.Context, _, i int) error {
			result, err := rate.Allow(ctx, b.subjects[i].ID(), quota)
			return admitted(err, err == nil && result.Allowed == 1)
		})},
		{"throttled, its store on go-redis", 1, b.calling(gcra)},
	}, nil
}

func bucketRule(id string) *limit.Rule {
	return newRule(id, limit.Account, limit.TokenBucket, ample)
}

// take calls as the limiter does: by a context that never ends, for the store's
// timeout bounds it, and with asks and results whose memory is used again.
func (b *bench) take(s store.Store, rules []*limit.Rule) func(ctx context.Context, caller, account int) error {
	asks, results := make([]store.Ask, len(b.subjects)), make([]store.Result, b.InFlight)
	for i, subject := range b.subjects {
		asks[i] = askOf(subject, rules)
	}
	return func(_ context.Context, caller, account int) error {
		err := s.Take(context.Background(), &asks[account], &results[caller])
		return admitted(err, results[caller].Allowed)
	}
}

func askOf(subject limit.Subject, rules []*limit.Rule) store.Ask {
	ask := store.Ask{Subject: subject}
	for _, r := range rules {
		ask.Entries = append(ask.Entries, store.Entry{Rule: r, Limit: r.Limit, Need: 1, Want: 1})
	}
	return ask
}

// admitted is an error where a call failed or refused: then it is not what is
// to be measured.
func admitted(err error, allowed bool) error {
	if err == nil && !allowed {
		return errors.New("refused under an ample limit")
	}
	return err
}

func (b *bench) throttled(client *redis.Client) (func(ctx context.Context, caller, account int) error, error) {
	kept, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(kept, throttled.RateQuota{MaxRate: throttled.PerSec(int(ample.Rate)), MaxBurst: int(ample.Burst)})
	if err != nil {
		return nil, err
	}
	// Two writers of a key at once are one too many for its compare and swap.
	limiter.SetMaxCASAttemptsLimit(1000)
	return func(ctx context.Context, _, i int) error {
		limited, _, err := limiter.RateLimitCtx(ctx, b.subjects[i].ID(), 1)
		return admitted(err, !limited)
	}, nil
}

// calling makes a slice of calls by so many callers, spread over the accounts.
func (b *bench) calling(call func(ctx context.Context, caller, account int) error) func(context.Context, time.Duration) (int64, error) {
	return func(ctx context.Context, length time.Duration) (int64, error) {
		var calls atomic.Int64
		group, within := errgroup.WithContext(ctx)
		begin := time.Now()
		for g := range b.InFlight {
			group.Go(func() error {
				n := int64(0)
				defer func() { calls.Add(n) }()
				for i := g; time.Since(begin) < length && within.Err() == nil; i += b.InFlight {
					if err := call(ctx, g, i%b.Accounts); err != nil {
						return err
					}
					n++
				}
				return nil
			})
		}
		err := group.Wait()
		return calls.Load(), err
	}
}
