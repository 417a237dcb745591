package convergence

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/shiplane/limits/libs/ruleset/feed"
	"github.com/shiplane/limits/libs/testenv"
)

// waitPoll is the time between two looks at the pods.
const waitPoll = 5 * time.Millisecond

// Config is how large a fleet is.
type Config struct {
	Instances int // of the rules service, at least 1
	Pods      int
}

// Fleet is instances of the rules service on one PostgreSQL, and pods that follow
// them.
type Fleet struct {
	dir       string
	postgres  *testenv.Postgres
	instances []*instance
	pods      []*pod
	versions  map[string]int64 // of each rule, as acknowledged
	rates     map[string]float64
}

// Start starts everything, with one rule that every pod goes by. The program's main
// has to call RunInstance where IsInstance.
func Start(ctx context.Context, cfg Config) (*Fleet, error) {
	f := &Fleet{versions: map[string]int64{}, rates: map[string]float64{}}
	if err := f.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context, cfg Config) error {
	var err error
	if f.dir, err = os.MkdirTemp("", "convergence-"); err != nil {
		return err
	}
	if f.postgres, err = testenv.StartPostgres(ctx, testenv.PostgresConfig{}); err != nil {
		return err
	}
	at, err := f.database()
	if err != nil {
		return err
	}
	for n := range cfg.Instances {
		i, err := newInstance(f.dir, n, at)
		if err != nil {
			return err
		}
		f.instances = append(f.instances, i)
		if err := i.start(ctx); err != nil { // one after another: the first one makes the tokens
			return err
		}
	}
	if err := f.instances[0].prepare(ctx, rulesEdited); err != nil {
		return err
	}
	if _, err := f.edit(ctx, 0); err != nil {
		return err
	}
	for n := range cfg.Pods {
		p, err := startPod(feed.Config{Addresses: f.addresses(), TokenFile: podToken(f.dir)}, fmt.Sprintf("pod-%d", n))
		if err != nil {
			return err
		}
		f.pods = append(f.pods, p)
	}
	for _, p := range f.pods {
		if err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// database is the URL without the password, which goes into a file of its own.
func (f *Fleet) database() (store, error) {
	u, err := url.Parse(f.postgres.URL("postgres"))
	if err != nil {
		return store{}, err
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	s := store{url: u.String(), passwordFile: filepath.Join(f.dir, "password")}
	return s, os.WriteFile(s.passwordFile, []byte(password), 0o600)
}

func (f *Fleet) addresses() []string {
	var all []string
	for _, i := range f.instances {
		all = append(all, i.url())
	}
	return all
}

// settle waits until every pod goes by a revision.
func (f *Fleet) settle(ctx context.Context, revision int64) error {
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for n, p := range f.pods {
		for p.Status().Revision < revision {
			select {
			case <-tick.C:
			case <-ctx.Done():
				s := p.Status()
				return fmt.Errorf("pod %d stays at revision %d of %d (watching: %v, %w): %w", n, s.Revision, revision, s.Watching, s.Failure, ctx.Err())
			}
		}
	}
	return nil
}

// Close ends everything and removes its files.
func (f *Fleet) Close() error {
	var faults []error
	for _, p := range f.pods {
		p.close()
	}
	for _, i := range f.instances {
		faults = append(faults, i.close())
	}
	if f.postgres != nil {
		faults = append(faults, f.postgres.Close())
	}
	if f.dir != "" {
		faults = append(faults, os.RemoveAll(f.dir))
	}
	return errors.Join(faults...)
}
