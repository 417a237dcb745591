package gateway

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/shiplane/limits/gateway/internal/proxy"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/ruleset"
)

// Pool is upstreams that serve the same paths.
type Pool = proxy.Pool

// proxyFlags are the flags that say where requests go and how long they may take.
type proxyFlags struct {
	Upstream        []string `sep:"none" placeholder:"[/PREFIX=]URL,..." help:"The API to protect, as in http://127.0.0.1:3000. Several URLs take turns; one that refuses connections is left out for a while. With /PREFIX= they serve the paths below it (the prefix is sent on too); give the flag again, or separate by spaces. h2c://HOST is HTTP/2 without TLS, as for plain gRPC. Needs --rules."`
	UpstreamTimeout string   `default:"60s" placeholder:"DURATION" help:"How long an upstream that has the whole request may take to begin its answer, or the answer is 504; 0s to 1h, 0s for no limit (default 60s)."`
	UpstreamHealth  string   `placeholder:"PATH" help:"Path that each upstream is asked for every 5 s; one that does not answer 2xx or 3xx twice in a row gets no requests until it does (default: not asked)."`
	StrictPaths     bool     `default:"true" negatable:"" help:"Answer 400 to paths that servers read in different ways: with an encoded slash or backslash, a ';' or a control character (default true; with --no-strict-paths they pass as they are, under the rules of the path as it is spelled)."`
	ClientTimeout   string   `default:"60s" placeholder:"DURATION" help:"How long a client may stall, sending nothing of a body or taking nothing of an answer, 100ms to 1h. Any byte is progress (default 60s)."`

	command.CertFlags `embed:""`
}

// ProxyConfig is a checked configuration of the way through the gateway.
type ProxyConfig struct {
	Pools           []Pool // one of them for all paths; none in the demo
	UpstreamTimeout time.Duration
	UpstreamHealth  string // path; "" for none
	StrictPaths     bool
	ClientTimeout   time.Duration // 0: one minute
	TLS             command.CertFlags
}

// Bounds of flags.
const (
	upstreamTimeoutMax = time.Hour
	clientTimeoutMin   = 100 * time.Millisecond
	clientTimeoutMax   = time.Hour
	upstreamsMax       = 1000 // URLs in all
)

func (f *proxyFlags) config(faults *command.Faults) ProxyConfig {
	fault := faults.Add
	cfg := ProxyConfig{
		UpstreamHealth: f.UpstreamHealth, StrictPaths: f.StrictPaths, TLS: f.CertFlags,
		UpstreamTimeout: faults.Duration("upstream-timeout", f.UpstreamTimeout, 0, upstreamTimeoutMax),
		ClientTimeout:   faults.Duration("client-timeout", f.ClientTimeout, clientTimeoutMin, clientTimeoutMax),
	}
	if p := f.UpstreamHealth; p != "" {
		if u, err := url.ParseRequestURI(p); err != nil || p[0] != '/' || u.Host != "" {
			fault("upstream-health", p, "want a path, as /healthz")
		}
	}
	f.Check(faults)
	cfg.Pools = pools(f.Upstream, fault)
	return cfg
}

// upstreamGiven reports whether any upstream was given.
func (f *proxyFlags) upstreamGiven() bool {
	return strings.TrimSpace(strings.Join(f.Upstream, "")) != ""
}

// pools reads "[/PREFIX=]URL,URL" texts, each of which may hold several, separated
// by spaces.
func pools(texts []string, fault faultFunc) (made []Pool) {
	urls := 0
	seen := map[string]bool{}
	for _, text := range strings.Fields(strings.Join(texts, " ")) {
		var pool Pool
		list := text
		if text[0] == '/' {
			pool.Prefix, list, _ = strings.Cut(text, "=")
			if problem := prefixProblem(pool.Prefix); problem != "" {
				fault("upstream", pool.Prefix, problem)
				continue
			}
			pool.Prefix = strings.TrimSuffix(pool.Prefix, "/")
		}
		if seen[pool.Prefix] {
			fault("upstream", command.WithoutUser(text), fmt.Sprintf("the prefix %q is given twice: list its URLs with commas", pool.Prefix+"/"))
		}
		seen[pool.Prefix] = true
		for text := range strings.SplitSeq(list, ",") {
			if u, problem := upstreamURL(text); problem != "" {
				fault("upstream", command.WithoutUser(text), problem)
			} else {
				pool.URLs = append(pool.URLs, u)
			}
		}
		urls += len(pool.URLs)
		made = append(made, pool)
	}
	if len(made) > 0 && !seen[""] {
		fault("upstream", command.WithoutUser(strings.Join(texts, " ")), "lacks one for all other paths: give a URL without a prefix")
	}
	if urls > upstreamsMax {
		fault("upstream", fmt.Sprintf("%d URLs", urls), fmt.Sprintf("want at most %d", upstreamsMax))
	}
	return made
}

func prefixProblem(prefix string) string {
	u, err := url.ParseRequestURI(prefix)
	if err != nil {
		return "want a path before the =, as /v2"
	}
	if path, raw := ruleset.CleanPath(u); u.RawQuery != "" || path != u.Path || raw != u.RawPath {
		return "can never match: want a clean path without a query"
	}
	return ""
}

func upstreamURL(text string) (u *url.URL, problem string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c":
		return nil, "want http://HOST[:PORT][/PATH], https://… or h2c://…"
	case u.User != nil:
		return nil, "must not hold a user or password: they would show in process lists and logs"
	case u.Fragment != "":
		return nil, "must not have a fragment"
	}
	return u, ""
}

// upstreams names pools as --upstream does.
func upstreams(pools []Pool) string {
	var texts []string
	for _, pool := range pools {
		var urls []string
		for _, u := range pool.URLs {
			urls = append(urls, u.Redacted())
		}
		text := strings.Join(urls, ",")
		if pool.Prefix != "" {
			text = pool.Prefix + "=" + text
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " ")
}
