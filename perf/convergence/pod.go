package convergence

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/shiplane/limits/libs/ruleset/feed"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// domain is the one that everything is about.
const domain = "public-api"

// pod follows the rules as a gateway does.
type pod struct {
	*feed.Feed
	diary *diary
	end   context.CancelFunc
	ended chan struct{}
}

// startPod begins to follow; cfg needs no more than what is its own.
func startPod(cfg feed.Config, id string) (*pod, error) {
	p := &pod{diary: &diary{}, ended: make(chan struct{})}
	cfg.Domain, cfg.Pod, cfg.Logger = domain, &rulesv1.Pod{Id: id, Region: "us-east"}, slog.New(p.diary)
	var err error
	if p.Feed, err = feed.Open(cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	go func() {
		defer close(p.ended)
		p.Run(ctx)
	}()
	return p, nil
}

func (p *pod) close() {
	p.end()
	<-p.ended
}

// adoption is a revision that came in force.
type adoption struct {
	revision int64
	at       time.Time
}

// diary is a log handler that notes when which revision came in force: a feed tells
// it nowhere else.
type diary struct {
	mu  sync.Mutex
	all []adoption
}

// adopted is the message of a feed that has put a revision in force.
const adopted = "rules in force"

func (d *diary) Enabled(context.Context, slog.Level) bool { return true }
func (d *diary) WithAttrs([]slog.Attr) slog.Handler       { return d }
func (d *diary) WithGroup(string) slog.Handler            { return d }

func (d *diary) Handle(_ context.Context, r slog.Record) error {
	if r.Message != adopted {
		return nil
	}
	a := adoption{at: r.Time}
	r.Attrs(func(attr slog.Attr) bool {
		if attr.Key == "revision" {
			a.revision = attr.Value.Int64()
		}
		return true
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, a)
	return nil
}

// notes returns what came in force, in its order.
func (d *diary) notes() []adoption {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// clear forgets what was before.
func (d *diary) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = nil
}
