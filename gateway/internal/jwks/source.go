package jwks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/shiplane/limits/libs/filewatch"
)

const (
	fetchTimeout  = 5 * time.Second  // for a set to come
	fetchInterval = 10 * time.Second // between two fetches that tokens with unknown keys ask for, or after a failure
	redirectsMax  = 3
)

// Config is where keys come from, and what is asked of tokens.
type Config struct {
	Source  string        // path of a file, which is followed, or URL (see CheckURL)
	Refresh time.Duration // between two fetches of a URL
	Claims  Claims
	Logger  *slog.Logger // told of sets that cannot be had or read, once each time
}

// Open makes a verifier. An error names the source and what is wrong with it: a
// file has to be good, while a URL is asked later, for what is not reached now may
// be in a moment. run follows the source until its context ends; call it once.
func Open(cfg Config) (v *Verifier, run func(context.Context), err error) {
	v = &Verifier{claims: cfg.Claims, now: time.Now}
	if IsURL(cfg.Source) {
		if err := CheckURL(cfg.Source); err != nil {
			return nil, nil, fmt.Errorf("key set %s: %w", cfg.Source, err)
		}
		remote := newRemote(cfg)
		v.keys = remote
		return v, remote.run, nil
	}
	text, err := filewatch.Read(cfg.Source, setMax)
	if err != nil {
		return nil, nil, fmt.Errorf("key set: %w", err)
	}
	file := &file{}
	if err := file.set(text); err != nil {
		return nil, nil, fmt.Errorf("key set %s: %w", cfg.Source, err)
	}
	v.keys = file
	return v, func(ctx context.Context) { file.follow(ctx, cfg) }, nil
}

// IsURL reports whether a source is a URL, and not a path.
func IsURL(source string) bool { return strings.Contains(source, "://") }

// CheckURL reports a URL that keys must not come from: whoever can change them on
// the way could sign tokens. So it is https, or http of this machine.
func CheckURL(source string) error {
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Host == "":
		return errors.New("want https://HOST/PATH")
	case u.User != nil:
		return errors.New("must not hold a user or password: they would show in process lists and logs")
	}
	return checkScheme(u)
}

func checkScheme(u *url.URL) error {
	address, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && address.IsLoopback()
	if u.Scheme == "https" || u.Scheme == "http" && local {
		return nil
	}
	return errors.New("want https://, or http:// of this machine: whoever can change keys on the way can sign tokens")
}

// current is a set that is replaced as a whole.
type current struct {
	keys atomic.Pointer[[]jose.JSONWebKey] // nil: never had
}

func (c *current) set(text []byte) error {
	keys, err := parseSet(text)
	if err == nil {
		c.keys.Store(&keys)
	}
	return err
}

// with returns the keys with an id, all of them for "".
func (c *current) with(id string) []jose.JSONWebKey {
	keys := c.keys.Load()
	if keys == nil {
		return nil
	}
	if id == "" {
		return *keys
	}
	var found []jose.JSONWebKey
	for _, key := range *keys {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// file is a set in a file.
type file struct{ current }

func (f *file) find(_ context.Context, id string) ([]jose.JSONWebKey, error) { return f.with(id), nil }

func (f *file) follow(ctx context.Context, cfg Config) {
	var last []byte
	filewatch.Watch(ctx, cfg.Source, setMax, func(text []byte, err error) {
		if err == nil && slices.Equal(text, last) {
			return
		}
		if last = text; err == nil {
			err = f.set(text)
		}
		if err != nil {
			cfg.Logger.Error("key set cannot be used: the keys in force stay", "source", cfg.Source, "error", err)
		}
	})
}

// remote is a set at a URL.
type remote struct {
	current
	cfg    Config
	client *http.Client
	flight singleflight.Group
	paced  *rate.Limiter // of fetches that tokens ask for
}

func newRemote(cfg Config) *remote {
	return &remote{cfg: cfg, paced: rate.NewLimiter(rate.Every(fetchInterval), 1), client: &http.Client{
		Timeout: fetchTimeout,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > redirectsMax {
				return fmt.Errorf("more than %d redirects", redirectsMax)
			}
			return checkScheme(r.URL)
		},
	}}
}

// find is of source. A token whose key is not known waits for the set to be
// fetched again, if that may be: keys change without notice.
func (s *remote) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	if found := s.with(id); len(found) > 0 {
		return found, nil
	}
	select {
	case <-s.flight.DoChan("", func() (any, error) {
		if s.paced.Allow() {
			s.fetch(context.WithoutCancel(ctx)) // others wait for it, too
		}
		return nil, nil
	}):
	case <-ctx.Done():
	}
	if s.keys.Load() == nil {
		return nil, ErrNoKeys
	}
	return s.with(id), nil
}

// run fetches the set now and then.
func (s *remote) run(ctx context.Context) {
	for {
		next := s.cfg.Refresh
		if !s.fetch(ctx) {
			next = min(next, fetchInterval)
		}
		wait := time.NewTimer(next)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
	}
}

// fetch gets the set and reports whether it did. A failure changes nothing.
func (s *remote) fetch(ctx context.Context) bool {
	text, err := s.get(ctx)
	if err == nil {
		err = s.set(text)
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Error("key set cannot be fetched: the keys in force stay", "source", s.cfg.Source, "error", err)
	}
	return err == nil
}

func (s *remote) get(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cfg.Source, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/jwk-set+json, application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s", response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, setMax+1))
	if err == nil && len(text) > setMax {
		err = fmt.Errorf("has more than %d bytes", setMax)
	}
	return text, err
}
