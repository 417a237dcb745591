package proxy

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// How upstreams are asked for their health.
const (
	healthEvery   = 5 * time.Second
	healthTimeout = 2 * time.Second
	sickAfter     = 2 // failures in a row: one may be an accident
)

// Run asks each upstream for its HealthPath, until ctx ends. One that does not
// answer 2xx or 3xx twice in a row is left out of its pool until it does again. It
// returns at once without a HealthPath.
func (p *Proxy) Run(ctx context.Context) {
	if p.cfg.HealthPath == "" {
		return
	}
	var asking sync.WaitGroup
	for _, pool := range p.pools {
		for _, m := range pool.members {
			asking.Go(func() { p.watch(ctx, m) })
		}
	}
	asking.Wait()
}

// Serving says of each upstream whether it takes its turns: it answers for its health,
// if it is asked, and its last connection was not refused. One that stands before
// several paths does so before all of them. Safe for concurrent use.
func (p *Proxy) Serving() map[string]bool {
	all := map[string]bool{}
	for _, pool := range p.pools {
		for _, m := range pool.members {
			name := m.url.Redacted()
			before, known := all[name]
			all[name] = m.serves() && (before || !known)
		}
	}
	return all
}

func (p *Proxy) watch(ctx context.Context, m *member) {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for failures := 0; ; {
		err := m.ask(ctx, p.cfg.HealthPath)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			if m.sick.Swap(false) {
				p.cfg.Logger.Info("the upstream is healthy again", "upstream", m.url.Redacted())
			}
		default:
			if failures++; failures >= sickAfter && !m.sick.Swap(true) {
				p.cfg.Logger.Warn("the upstream is left out until it is healthy", "upstream", m.url.Redacted(), "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask returns why an upstream is not healthy.
func (m *member) ask(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url.Scheme+"://"+m.url.Host+path, nil)
	if err != nil {
		return err
	}
	response, err := m.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("GET %s answers %s", path, response.Status)
	}
	return nil
}
