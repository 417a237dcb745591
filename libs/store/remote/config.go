package remote

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/store/breaker"
)

// Config is what a Store is made of.
type Config struct {
	// URLs are those of checkers, as http://HOST:8081 or https://…: each of one
	// checker, or of a balancer before several.
	URLs  []string
	Token func() string // sent with each call, for it may change; nil or "": none
	TLS   *tls.Config   // for https://; nil: the system's roots

	Timeout  time.Duration // of a Take; zero: 12 ms
	InFlight int64         // asks at a checker, at most; zero: 1024

	Observer Observer     // nil: nobody
	Logger   *slog.Logger // nil: slog.Default
}

// An Observer is told what becomes of asks. Its methods are called on the path of
// requests: they must not block. Safe for concurrent use.
type Observer interface {
	// Call tells of one ask at one checker: the class of its error ("ok": none) and
	// how long it took. An ask that goes from one to another is told of twice.
	Call(checker, class string, took time.Duration)
	// Breaker tells that a checker's breaker changed its state.
	Breaker(checker string, from, to breaker.State)
}

// The defaults of Config.
const (
	// DefaultTimeout leaves a checker the 5 ms that its own store may take, twice the
	// network, and a stall.
	DefaultTimeout  = 12 * time.Millisecond
	DefaultInFlight = 1024
)

// endpointsMax bounds the checkers: each has connections and a breaker of its own.
const endpointsMax = 64

// Validate reports what New would refuse.
func (cfg *Config) Validate() error {
	if len(cfg.URLs) < 1 || len(cfg.URLs) > endpointsMax {
		return fmt.Errorf("%d checkers: want 1 to %d", len(cfg.URLs), endpointsMax)
	}
	seen := map[string]bool{}
	for _, text := range cfg.URLs {
		u, err := url.Parse(text)
		switch {
		case err != nil:
			return fmt.Errorf("URL of a checker: %w", errors.Unwrap(err)) // without the URL: it may hold a secret
		case u.User != nil:
			return errors.New("URL of a checker holds a user or password: give a token")
		case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "":
			return fmt.Errorf("URL of a checker %q: want http://HOST:PORT or https://…", text)
		case seen[u.Host]:
			return fmt.Errorf("URL of a checker %q: its host stands there twice", text)
		}
		seen[u.Host] = true
	}
	if cfg.Timeout < 0 || cfg.InFlight < 0 {
		return fmt.Errorf("timeout %v, in flight %d: want more than 0", cfg.Timeout, cfg.InFlight)
	}
	return nil
}

// base is a URL without the slash at its end, and the name of its checker.
func base(text string) (address, name string) {
	u, err := url.Parse(text)
	if err != nil {
		return text, text // which Validate has refused
	}
	return strings.TrimSuffix(text, "/"), u.Host
}

type nobody struct{}

func (nobody) Call(string, string, time.Duration)           {}
func (nobody) Breaker(string, breaker.State, breaker.State) {}
