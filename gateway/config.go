package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/libs/ruleset"
)

// flags is the command line of the gateway as text: it is read in one go by
// config, so that all that is wrong is said at once.
type flags struct {
	Listen string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to serve callers on, HTTP/1.1 and HTTP/2, without TLS unless --tls-cert is given (default 127.0.0.1:8080)."`
	Admin  string `default:"127.0.0.1:9080" placeholder:"HOST:PORT" help:"Address of /healthz, /readyz and /metrics, for operators only (default 127.0.0.1:9080)."`

	proxyFlags `embed:""`

	ruleFlags `embed:""`

	Keys       string `placeholder:"FILE" help:"Key file, followed while running (default: no keys, every caller is anonymous)."`
	RequireKey bool   `help:"Answer 401 to requests without an account: a known key, account header or token (default: they are anonymous)."`

	storeFlags `embed:""`

	Mode string `default:"enforce" placeholder:"enforce|shadow|off" help:"enforce; shadow: evaluate and count, but refuse and show nothing; off: do not ask the limiter. Keys are checked in all of them (default enforce)."`

	identityFlags `embed:""`
	answerFlags   `embed:""`

	LoginBodyMax string `default:"65536" placeholder:"BYTES" help:"Largest body of a route whose rules count by user, 1 to 16777216 bytes; other bodies are not bounded (default 65536)."`

	DrainDelay   string `default:"0s" placeholder:"DURATION" help:"On SIGTERM, how long to serve on while /readyz says no, 0s to 10m (default 0s)."`
	DrainTimeout string `default:"30s" placeholder:"DURATION" help:"Then, how long requests in flight may take before they are cut, 0s to 1h (default 30s)."`

	LogFormat string `default:"text" placeholder:"text|json" help:"Format of the log on standard error (default text)."`
	LogLevel  string `default:"info" placeholder:"debug|info|warn|error" help:"Least severe level to log (default info)."`
	Pprof     bool   `help:"Serve /debug/pprof/ on --admin."`

	observeFlags `embed:""`
}

// Help is shown by gateway --help.
func (*flags) Help() string {
	return `Without --upstream and --rules it runs a demo, on loopback addresses only.
Another command, "gateway hash-key", makes entries of the key file.

Every flag can also be given by the environment variable beside it. Durations
are written as 500ms, 30s or 2m. The exit code is 0 after a clean end, 1 after a
failure, 2 if the command line or what it names is wrong.`
}

// Config is a checked configuration.
type Config struct {
	Listen, Admin string // HOST:PORT
	Demo          bool   // no upstream, rules or keys were given

	Rules      RulesConfig
	Keys       string // path; "" for none
	RequireKey bool

	Proxy   ProxyConfig
	Store   StoreConfig
	Observe ObserveConfig

	Trusted       []netip.Prefix
	AddressHeader string // canonical, as the next two; which are "" for none
	AccountHeader string
	PlanHeader    string
	DefaultPlan   string // "" for none
	Naming        ruleset.Naming
	Tokens        *jwks.Config // without a logger; nil for none

	Mode           edge.Mode
	Charge         edge.Charge
	Legacy         bool     // X-RateLimit-*
	Origins        []string // that may read answers
	DeniedBody     string   // path; "" for none
	DeniedBodyType string
	LoginBodyMax   int64

	DrainDelay, DrainTimeout time.Duration

	LogJSON  bool
	LogLevel slog.Level
	Pprof    bool
}

// Bounds of flags.
const (
	drainDelayMax   = 10 * time.Minute
	drainTimeoutMax = time.Hour
	loginBodyMaxMax = 16 << 20 // bytes; each login in flight may hold as much
)

// config checks the flags; the error names every fault, each with its flag, and
// those of the files that the flags name: whoever mends the one can mend the other.
func (f *flags) config() (Config, error) {
	cfg, faults := f.read()
	if len(faults) > 0 {
		_, more := openFiles(cfg, discard)
		faults = append(faults, more...)
	}
	return cfg, combine(faults)
}

func (f *flags) read() (Config, []error) {
	var faults []error
	fault := func(flag, value, problem string) {
		faults = append(faults, fmt.Errorf("--%s %q: %s", flag, value, problem))
	}
	cfg := Config{
		Listen: f.Listen, Admin: f.Admin, Keys: f.Keys, RequireKey: f.RequireKey,
		Pprof: f.Pprof, Mode: edge.Mode(f.Mode),
		Demo: !f.upstreamGiven() && f.Rules == "" && f.Keys == "",
	}
	f.addresses(&cfg, fault)
	f.files(&cfg, fault)
	f.identityFlags.read(&cfg, fault)
	cfg.Rules = f.ruleFlags.config(&f.storeFlags, cfg.Naming, fault)
	f.answerFlags.read(&cfg, fault)
	f.choices(&cfg, fault)
	cfg.Proxy = f.proxyFlags.config(fault)
	cfg.Store = f.storeFlags.config(fault)
	cfg.Observe = f.observeFlags.config(fault)
	cfg.DrainDelay = duration("drain-delay", f.DrainDelay, drainDelayMax, fault)
	cfg.DrainTimeout = duration("drain-timeout", f.DrainTimeout, drainTimeoutMax, fault)
	var err error
	if cfg.LoginBodyMax, err = strconv.ParseInt(f.LoginBodyMax, 10, 64); err != nil || cfg.LoginBodyMax < 1 || cfg.LoginBodyMax > loginBodyMaxMax {
		fault("login-body-max", f.LoginBodyMax, fmt.Sprintf("want 1 to %d bytes", loginBodyMaxMax))
	}
	return cfg, faults
}

type faultFunc func(flag, value, problem string)

func (f *flags) addresses(cfg *Config, fault faultFunc) {
	for _, a := range [...]struct{ flag, value string }{{"listen", f.Listen}, {"admin", f.Admin}} {
		host, port, err := net.SplitHostPort(a.value)
		if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
			fault(a.flag, a.value, "want HOST:PORT with a port of 0 (any free one) to 65535")
		} else if cfg.Demo && !loopback(host) {
			fault(a.flag, a.value, "the demo's keys are known to everybody, so it listens on 127.0.0.1, ::1 or localhost only; give --upstream and --rules")
		}
	}
}

func (f *flags) files(cfg *Config, fault faultFunc) {
	if cfg.Demo {
		return
	}
	if f.Rules == "" {
		fault("rules", "", "is missing: give it together with --upstream (and --keys)")
	}
	if !f.upstreamGiven() {
		fault("upstream", "", "is missing: give it together with --rules")
	}
}

func (f *flags) choices(cfg *Config, fault faultFunc) {
	switch cfg.Mode {
	case edge.Enforce, edge.Shadow, edge.Off:
	default:
		fault("mode", f.Mode, "want enforce, shadow or off")
	}
	switch f.LogFormat {
	case "text", "json":
		cfg.LogJSON = f.LogFormat == "json"
	default:
		fault("log-format", f.LogFormat, "want text or json")
	}
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[f.LogLevel]
	if !ok {
		fault("log-level", f.LogLevel, "want debug, info, warn or error")
	}
	cfg.LogLevel = level
}

func duration(flag, text string, most time.Duration, fault faultFunc) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		fault(flag, text, fmt.Sprintf("want a duration of 0s to %v, as in 30s", most))
	}
	return d
}

// parsePrefix reads a CIDR or a single address; one of IPv4 mapped into IPv6 as
// IPv4, as callers' addresses are.
func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		address, addressErr := netip.ParseAddr(text)
		if addressErr != nil {
			return netip.Prefix{}, cmp.Or(err, addressErr)
		}
		prefix = netip.PrefixFrom(address.WithZone(""), address.BitLen())
	}
	const mapped = 96 // bits before the IPv4 part
	if prefix.Addr().Is4In6() && prefix.Bits() >= mapped {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mapped)
	}
	return prefix.Masked(), nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// withoutUser cuts what stands before an @.
func withoutUser(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}
