package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/shiplane/limits/libs/testenv"
)

// Stack is a system that is starting, or runs. Its methods are safe for concurrent
// use.
type Stack struct {
	cfg      Config
	say      func(string)
	begun    time.Time
	life     context.Context // of what watches processes
	end      context.CancelFunc
	watching sync.WaitGroup
	scraper  http.Client

	orders sync.Mutex // one is carried out at a time

	mu       sync.Mutex
	ready    time.Duration // the start took so long; 0 while it has not ended
	postgres *testenv.Postgres
	parts    []part
	services []*service
	regions  []*region
}

// New returns a stack of which nothing has started. say is told what happens, a
// line each, by any goroutine.
func New(cfg Config, say func(string)) *Stack {
	s := &Stack{cfg: cfg, say: say, begun: time.Now(), scraper: newClient(scrapeTimeout)}
	s.life, s.end = context.WithCancel(context.Background())
	for i, name := range cfg.Regions {
		s.regions = append(s.regions, &region{name: name, number: i})
	}
	return s
}

// Start starts everything and waits until it is ready for requests. What has
// started stays when it fails: Close is for the caller to call.
func (s *Stack) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	rules := make(chan struct{})
	group.Go(func() error { return s.run(ctx, s.cfg.upstream()) })
	group.Go(func() error {
		defer close(rules)
		return s.startRules(ctx)
	})
	for _, r := range s.regions {
		group.Go(func() error { return s.startRegion(ctx, r, rules) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	s.mu.Lock()
	s.ready = time.Since(s.begun)
	s.mu.Unlock()
	return nil
}

// startRules starts Postgres and the rules service.
func (s *Stack) startRules(ctx context.Context) error {
	home := s.cfg.Regions[0]
	p, err := testenv.StartPostgres(ctx, testenv.PostgresConfig{Address: s.cfg.host(0, sharedHost), Dir: s.cfg.file("postgres"), Proxied: true})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.postgres = p
	s.parts = append(s.parts, database{p, home})
	s.mu.Unlock()
	rules, err := s.cfg.rules(p.URL("postgres"))
	if err != nil {
		return err
	}
	if err := s.run(ctx, rules); err != nil {
		return err
	}
	token, err := os.ReadFile(s.cfg.file(AdminTokenFile))
	if err != nil {
		return err
	}
	header := "Authorization: Bearer " + strings.TrimSpace(string(token)) + "\n"
	s.say("PostgreSQL and the rules service run")
	return os.WriteFile(s.cfg.file(AuthFile), []byte(header), 0o600)
}

// startRegion starts a region's Redis Cluster and, once there are rules, what
// counts in it.
func (s *Stack) startRegion(ctx context.Context, r *region, rules <-chan struct{}) error {
	if err := r.startRedis(ctx, &s.cfg); err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	s.mu.Lock()
	s.parts = append(s.parts, r.nodes()...)
	s.mu.Unlock()
	s.say(fmt.Sprintf("%s: a Redis Cluster of %d primaries and %d replicas runs", r.name, s.cfg.Shards, s.cfg.Shards*s.cfg.Replicas))
	select {
	case <-rules:
	case <-ctx.Done():
		return ctx.Err()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.run(ctx, s.cfg.checker(r)) })
	for i := range s.cfg.Gateways {
		group.Go(func() error { return s.run(ctx, s.cfg.gateway(r, i+1)) })
	}
	return group.Wait()
}

// run starts a service and says it if it ends by itself.
func (s *Stack) run(ctx context.Context, started *service) error {
	s.mu.Lock()
	s.parts, s.services = append(s.parts, started), append(s.services, started)
	s.mu.Unlock()
	err := started.restart(ctx)
	if err == nil {
		s.watch(started)
	}
	return err
}

func (s *Stack) watch(started *service) {
	s.watching.Go(func() {
		started.watch(s.life, func(name string, err error) {
			s.say(fmt.Sprintf("%s has ended by itself: %v (dev logs %s)", name, err, name))
		})
	})
}

// Close ends everything: the services in order, what they stand on then at once.
// Nothing runs when it returns; its errors are about what would not end in order.
func (s *Stack) Close() error {
	s.orders.Lock()
	defer s.orders.Unlock()
	s.end()
	s.watching.Wait()
	s.mu.Lock()
	services, postgres := s.services, s.postgres
	s.mu.Unlock()
	errs := make([]error, len(services))
	var ending sync.WaitGroup
	for i, service := range services {
		ending.Go(func() { errs[i] = service.stop() })
	}
	ending.Wait()
	for _, r := range s.regions {
		ending.Go(r.close)
	}
	ending.Wait()
	if postgres != nil {
		return errors.Join(errors.Join(errs...), postgres.Close())
	}
	return errors.Join(errs...)
}
