package checker

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/counters"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
)

// flags is the command line of the checker as text: config reads it in one go, so
// that all that is wrong is said at once.
type flags struct {
	Listen     string `default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address to serve Connect, gRPC-Web and JSON on, HTTP/1.1 and HTTP/2, without TLS unless --tls-cert is given (default 127.0.0.1:8081)."`
	GRPCListen string `name:"grpc-listen" default:"127.0.0.1:8085" placeholder:"HOST:PORT" help:"Address to serve native gRPC and Envoy's rate limit protocol on, with the same certificate (default 127.0.0.1:8085)."`
	Admin      string `default:"127.0.0.1:9081" placeholder:"HOST:PORT" help:"Address of /healthz, /readyz and /metrics, for operators only (default 127.0.0.1:9081)."`

	Rules   string `placeholder:"FILE,...|URL,..." help:"Rule files, followed while running, each of a domain of its own; or the rules service, by the URLs of its instances, as http://HOST:8082[,http://HOST2:8082]."`
	Domains string `default:"public-api" placeholder:"NAME,..." help:"Domains whose rules the rules service is asked for; a rule file names its own (default public-api)."`

	rulesource.ServiceFlags `embed:""`
	rulesource.NamingFlags  `embed:""`
	counters.StoreFlags     `embed:""`

	Mode string `default:"enforce" placeholder:"enforce|shadow|off" help:"enforce; shadow: evaluate and count, but admit all; off: do not ask the limiter (default enforce)."`

	accessFlags `embed:""`

	command.TLSFlags       `embed:""`
	command.DrainFlags     `embed:"" set:"drain_delay=1s"`
	command.LogFlags       `embed:""`
	command.TelemetryFlags `embed:""`

	Pprof bool `help:"Serve /debug/pprof/ on --admin."`
}

// accessFlags say who may call.
type accessFlags struct {
	TokenFile      string `placeholder:"FILE" help:"Tokens, one a line, of which a caller must send one; followed while running (default: callers need none, and those of this machine alone are served)."`
	PodTokenFile   string `placeholder:"FILE" help:"The same for tokens that may also Acquire, which gateways with --checker do."`
	AllowedOrigins string `placeholder:"ORIGIN,..." help:"Origins whose scripts may call, as https://shop.example, or * for all (default none)."`
}

// Help is shown by checker --help.
func (*flags) Help() string {
	return `The check as a service. With --store=memory it counts on its own: several
checkers, and gateways beside them, share what a Redis Cluster counts.

Every flag can also be given by the environment variable beside it. Durations
are written as 500ms, 30s or 2m. The exit code is 0 after a clean end, 1 after a
failure, 2 if the command line or what it names is wrong.`
}

// Config is a checked configuration.
type Config struct {
	Listen, GRPCListen, Admin string // HOST:PORT

	Rules []rulesource.Config // one for each domain
	Store counters.Config
	Mode  decide.Mode

	Tokens, PodTokens string   // paths; "" for none
	Origins           []string // that may call from scripts

	TLS    command.TLSFlags
	Drain  serve.Config // without a logger
	Log    command.Log
	Export telemetry.Export
	Pprof  bool
}

// open reports whether callers need neither a token nor a certificate.
func (c *Config) open() bool { return c.Tokens == "" && c.PodTokens == "" && c.TLS.ClientCA == "" }

// domainsMax bounds the domains of one checker: each holds its rules, and each of a
// rules service a connection.
const domainsMax = 100

// config checks the flags; the error names every fault, each with its flag.
func (f *flags) config() (Config, error) {
	var faults command.Faults
	cfg := Config{
		Listen: faults.Address("listen", f.Listen), GRPCListen: faults.Address("grpc-listen", f.GRPCListen), Admin: faults.Address("admin", f.Admin),
		Rules: f.rules(&faults), Store: f.StoreFlags.Config(&faults), Mode: decide.Mode(f.Mode),
		Tokens: f.TokenFile, PodTokens: f.PodTokenFile, Origins: f.origins(&faults), TLS: f.TLSFlags,
		Drain: f.DrainFlags.Config(&faults), Log: f.LogFlags.Config(&faults), Export: f.TelemetryFlags.Config(&faults), Pprof: f.Pprof,
	}
	f.Check(&faults)
	if !slices.Contains([]decide.Mode{decide.Enforce, decide.Shadow, decide.Off}, cfg.Mode) {
		faults.Add("mode", f.Mode, "want enforce, shadow or off")
	}
	if !cfg.open() {
		return cfg, faults.Err()
	}
	for _, a := range [...]struct{ flag, value string }{{"listen", f.Listen}, {"grpc-listen", f.GRPCListen}} {
		if host, _, err := net.SplitHostPort(a.value); err == nil && !command.Loopback(host) {
			faults.Add(a.flag, a.value, "could be called by everybody: give --token-file, --pod-token-file or --client-ca, or listen on 127.0.0.1, ::1 or localhost only")
		}
	}
	return cfg, faults.Err()
}

// rules returns where the rules of each domain come from.
func (f *flags) rules(faults *command.Faults) (all []rulesource.Config) {
	service := rulesource.IsService(f.Rules)
	f.CheckRules(service, faults)
	naming := f.Naming(faults)
	pod := rulesource.Pod{Name: f.PodName(), Region: f.Region, Copies: f.StateDir}
	sources, domains := strings.Split(f.Rules, ","), []string{""}
	switch {
	case f.Rules == "":
		faults.Add("rules", "", "is missing: want a rule file, or URLs of the rules service")
		return nil
	case service:
		sources, domains = []string{f.Rules}, strings.Split(f.Domains, ",")
	}
	seen := map[string]bool{}
	for _, source := range sources {
		for _, domain := range domains {
			if seen[source+domain] {
				faults.Add("rules", command.WithoutUser(source), "stands there twice, or its domain does")
			}
			seen[source+domain] = true
			all = append(all, f.ServiceFlags.Config(source, domain, pod, naming, faults))
		}
	}
	if len(all) > domainsMax {
		faults.Add("domains", f.Domains, "are too many: want at most 100")
	}
	return all
}

// origins reads --allowed-origins.
func (f *flags) origins(faults *command.Faults) (all []string) {
	if f.AllowedOrigins == "" {
		return nil
	}
	for origin := range strings.SplitSeq(f.AllowedOrigins, ",") {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host || strings.Contains(origin, "*")) {
			faults.Add("allowed-origins", origin, "want SCHEME://HOST[:PORT] without a path, as in https://shop.example, or *")
		}
		all = append(all, origin)
	}
	if len(all) > 1 && slices.Contains(all, "*") {
		faults.Add("allowed-origins", f.AllowedOrigins, "want * alone, or origins by name")
	}
	return all
}
