package rulesource

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/ruleset/feed"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// ServiceFlags say how the rules service is reached where rules come from it.
type ServiceFlags struct {
	RulesToken string `name:"rules-token-file" placeholder:"FILE" help:"File that holds the token for the rules service, of role pod; followed, so that it can be replaced (default: what SHIPLANE_RULES_TOKEN holds)."`
	RulesCA    string `name:"rules-ca" placeholder:"FILE" help:"PEM certificates that the rules service's is verified against, with https:// (default: the system's)."`
	RulesCert  string `name:"rules-cert" placeholder:"FILE" help:"PEM certificate that this pod shows to the rules service, followed while running. Needs --rules-key."`
	RulesKey   string `name:"rules-key" placeholder:"FILE" help:"PEM key of --rules-cert, followed while running."`
	Canary     bool   `help:"Go by edits of rules that are on canary pods, before all others do."`
}

// NamingFlags say which callers are one. All that share counts must agree.
type NamingFlags struct {
	IPv6Prefix     string `name:"ipv6-prefix" env:"SHIPLANE_IPV6_PREFIX" default:"64" placeholder:"BITS" help:"How much of an IPv6 address is one caller, 16 to 128 bits (default 64)."`
	ExactUserNames bool   `help:"Count user names apart that differ in upper and lower case only (default: they are one user)."`
}

// Bounds of flags, in bits.
const (
	ipv6PrefixMin = 16
	ipv6PrefixMax = 128
)

// tokenVariable holds the token of the rules service where it comes from no file.
const tokenVariable = "SHIPLANE_RULES_TOKEN"

// Naming checks the flags.
func (f *NamingFlags) Naming(faults *command.Faults) ruleset.Naming {
	return ruleset.Naming{IPv6Prefix: int(faults.Int("ipv6-prefix", f.IPv6Prefix, ipv6PrefixMin, ipv6PrefixMax)), ExactUsers: f.ExactUserNames}
}

// Config is a checked configuration of where the rules of a domain come from: a file
// or a service. Both are empty where neither was given.
type Config struct {
	File    string
	Service *feed.Config      // without what the files below hold, options and a logger
	TLS     command.ClientTLS // towards the service
	Naming  ruleset.Naming
	Canary  bool
	Once    bool // the service's rules are fetched, and not followed
}

// String returns the file, or the addresses of the service.
func (c *Config) String() string {
	if c.Service != nil {
		return strings.Join(c.Service.Addresses, ",")
	}
	return c.File
}

// Pod is who asks the rules service.
type Pod struct {
	Name, Region string
	Copies       string // folder for the copies on disk; "" for none
}

// IsService reports whether a value of --rules names the rules service.
func IsService(rules string) bool { return strings.Contains(rules, "://") }

// Config checks the flags for the domain's rules: those of a file, or of the service
// whose URLs, with commas, rules is.
func (f *ServiceFlags) Config(rules, domain string, pod Pod, naming ruleset.Naming, faults *command.Faults) Config {
	if !IsService(rules) {
		return Config{File: rules, Naming: naming}
	}
	cfg := Config{
		TLS: f.tls(), Naming: naming, Canary: f.Canary,
		Service: &feed.Config{
			Addresses: strings.Split(rules, ","), Domain: domain, TokenFile: f.RulesToken,
			Pod: &rulesv1.Pod{Id: pod.Name, Region: pod.Region, Canary: f.Canary},
		},
	}
	if f.RulesToken == "" {
		cfg.Service.Token = os.Getenv(tokenVariable)
	}
	if err := limit.ValidateDomain(domain); err != nil {
		faults.Add("domain", domain, err.Error())
		return cfg
	}
	if pod.Copies != "" {
		cfg.Service.Copy = filepath.Join(pod.Copies, "rules-"+domain)
	}
	if err := cfg.Service.Validate(); err != nil {
		faults.Add("rules", command.WithoutUsers(rules), err.Error())
	}
	return cfg
}

// CheckRules notes flags that lack their companions. service says that rules come from the
// rules service.
func (f *ServiceFlags) CheckRules(service bool, faults *command.Faults) {
	secure := f.tls()
	secure.Check(faults)
	if service {
		return
	}
	for _, given := range [...]struct{ flag, value string }{
		{"rules-token-file", f.RulesToken}, {"rules-ca", f.RulesCA}, {"rules-cert", f.RulesCert}, {"rules-key", f.RulesKey},
	} {
		if given.value != "" {
			faults.Add(given.flag, given.value, "is for the rules service: want URLs in --rules")
		}
	}
}

func (f *ServiceFlags) tls() command.ClientTLS {
	return command.ClientTLS{Flags: "rules", CA: f.RulesCA, Cert: f.RulesCert, Key: f.RulesKey}
}

// options are those that rules are compiled with.
func (c *Config) options() []ruleset.Option {
	return []ruleset.Option{ruleset.WithNaming(c.Naming), ruleset.WithCanary(c.Canary)}
}
