package gateway

import (
	"cmp"
	"net"
	"net/netip"

	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/jwks"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/counters"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
)

// flags is the command line of the gateway as text: it is read in one go by
// config, so that all that is wrong is said at once.
type flags struct {
	Listen string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to serve callers on, HTTP/1.1 and HTTP/2, without TLS unless --tls-cert is given (default 127.0.0.1:8080)."`
	Admin  string `default:"127.0.0.1:9080" placeholder:"HOST:PORT" help:"Address of /healthz, /readyz and /metrics, for operators only (default 127.0.0.1:9080)."`

	proxyFlags `embed:""`

	Rules  string `placeholder:"FILE|URL,..." help:"Rule file, followed while running; or the rules service, by the URLs of its instances, as http://HOST:8082[,http://HOST2:8082]. Needs --upstream."`
	Domain string `default:"public-api" placeholder:"NAME" help:"Domain whose rules the rules service is asked for; a rule file names its own (default public-api)."`

	rulesource.ServiceFlags `embed:""`

	Keys       string `placeholder:"FILE" help:"Key file, followed while running (default: no keys, every caller is anonymous)."`
	RequireKey bool   `help:"Answer 401 to requests without an account: a known key, account header or token (default: they are anonymous)."`

	counters.StoreFlags   `embed:""`
	counters.CheckerFlags `embed:""`

	Mode string `default:"enforce" placeholder:"enforce|shadow|off" help:"enforce; shadow: evaluate and count, but refuse and show nothing; off: do not ask the limiter. Keys are checked in all of them (default enforce)."`

	identityFlags `embed:""`
	answerFlags   `embed:""`

	LoginBodyMax string `default:"65536" placeholder:"BYTES" help:"Largest body of a route whose rules count by user, 1 to 16777216 bytes; other bodies are not bounded (default 65536)."`

	command.DrainFlags     `embed:""`
	command.LogFlags       `embed:""`
	command.TelemetryFlags `embed:""`
	observeFlags           `embed:""`

	Pprof bool `help:"Serve /debug/pprof/ on --admin."`
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

	Rules      rulesource.Config
	Keys       string // path; "" for none
	RequireKey bool

	Proxy   ProxyConfig
	Store   counters.Config
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

	Drain  serve.Config // without a logger
	Log    command.Log
	Export telemetry.Export
	Pprof  bool
}

// loginBodyMaxMax bounds --login-body-max: each login in flight may hold as much.
const loginBodyMaxMax = 16 << 20 // bytes

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
	var faults command.Faults
	fault := faults.Add
	cfg := Config{
		Listen: f.Listen, Admin: f.Admin, Keys: f.Keys, RequireKey: f.RequireKey,
		Pprof: f.Pprof, Mode: edge.Mode(f.Mode),
		Demo: !f.upstreamGiven() && f.Rules == "" && f.Keys == "",
	}
	f.addresses(&cfg, &faults)
	f.files(&cfg, fault)
	f.identityFlags.read(&cfg, &faults)
	f.CheckRules(rulesource.IsService(f.Rules), &faults)
	pod := rulesource.Pod{Name: f.PodName(), Region: f.Region, Copies: f.StateDir}
	cfg.Rules = f.ServiceFlags.Config(f.Rules, f.Domain, pod, cfg.Naming, &faults)
	f.answerFlags.read(&cfg, fault)
	f.choices(&cfg, fault)
	cfg.Proxy = f.proxyFlags.config(&faults)
	cfg.Store = f.CheckerFlags.Config(&f.StoreFlags, &faults)
	cfg.Observe = f.observeFlags.config(&faults)
	cfg.Drain, cfg.Log, cfg.Export = f.DrainFlags.Config(&faults), f.LogFlags.Config(&faults), f.TelemetryFlags.Config(&faults)
	cfg.LoginBodyMax = faults.Int("login-body-max", f.LoginBodyMax, 1, loginBodyMaxMax)
	return cfg, faults
}

type faultFunc func(flag, value, problem string)

func (f *flags) addresses(cfg *Config, faults *command.Faults) {
	for _, a := range [...]struct{ flag, value string }{{"listen", f.Listen}, {"admin", f.Admin}} {
		faults.Address(a.flag, a.value)
		if host, _, err := net.SplitHostPort(a.value); err == nil && cfg.Demo && !command.Loopback(host) {
			faults.Add(a.flag, a.value, "the demo's keys are known to everybody, so it listens on 127.0.0.1, ::1 or localhost only; give --upstream and --rules")
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
