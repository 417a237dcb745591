package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/ruleset/feed"
	"github.com/shiplane/limits/libs/serve"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// ruleFlags are the flags that say where the rules come from.
type ruleFlags struct {
	Rules      string `placeholder:"FILE|URL,..." help:"Rule file, followed while running; or the rules service, by the URLs of its instances, as http://HOST:8082[,http://HOST2:8082]. Needs --upstream."`
	Domain     string `default:"public-api" placeholder:"NAME" help:"Domain whose rules the rules service is asked for; a rule file names its own (default public-api)."`
	RulesToken string `name:"rules-token-file" placeholder:"FILE" help:"File that holds the token for the rules service, of role pod; followed, so that it can be replaced (default: what SHIPLANE_RULES_TOKEN holds)."`
	RulesCA    string `name:"rules-ca" placeholder:"FILE" help:"PEM certificates that the rules service's is verified against, with https:// (default: the system's)."`
	RulesCert  string `name:"rules-cert" placeholder:"FILE" help:"PEM certificate that this gateway shows to the rules service, followed while running. Needs --rules-key."`
	RulesKey   string `name:"rules-key" placeholder:"FILE" help:"PEM key of --rules-cert, followed while running."`
	Canary     bool   `help:"Go by edits of rules that are on canary gateways, before all others do."`
}

// RulesConfig is a checked configuration of where the rules come from: a file or a
// service. Both are empty where neither was given.
type RulesConfig struct {
	File          string
	Service       *feed.Config // without what the files below hold, and a logger
	CA, Cert, Key string       // paths; "" for none
	Once          bool         // the service's rules are fetched, and not followed
}

// String returns the file, or the addresses of the service.
func (c *RulesConfig) String() string {
	if c.Service != nil {
		return strings.Join(c.Service.Addresses, ",")
	}
	return c.File
}

// tokenVariable holds the token of the rules service where it comes from no file.
const tokenVariable = "SHIPLANE_RULES_TOKEN"

const pemMax = 1 << 20 // bytes of certificates

// config checks the flags. pods are those that name this gateway.
func (f *ruleFlags) config(pods *storeFlags, naming ruleset.Naming, fault faultFunc) RulesConfig {
	if !strings.Contains(f.Rules, "://") {
		for flag, value := range map[string]string{
			"rules-token-file": f.RulesToken, "rules-ca": f.RulesCA, "rules-cert": f.RulesCert, "rules-key": f.RulesKey,
		} {
			if value != "" {
				fault(flag, value, "is for the rules service: want URLs in --rules")
			}
		}
		return RulesConfig{File: f.Rules}
	}
	cfg := RulesConfig{CA: f.RulesCA, Cert: f.RulesCert, Key: f.RulesKey, Service: &feed.Config{
		Addresses: strings.Split(f.Rules, ","), Domain: f.Domain, TokenFile: f.RulesToken,
		Pod:     &rulesv1.Pod{Id: pods.podName(), Region: pods.Region, Canary: f.Canary},
		Options: []ruleset.Option{ruleset.WithNaming(naming), ruleset.WithCanary(f.Canary)},
	}}
	if f.RulesToken == "" {
		cfg.Service.Token = os.Getenv(tokenVariable)
	}
	if (f.RulesCert == "") != (f.RulesKey == "") {
		fault("rules-cert", f.RulesCert, "and --rules-key go together")
	}
	if err := limit.ValidateDomain(f.Domain); err != nil {
		fault("domain", f.Domain, err.Error())
		return cfg
	}
	if pods.StateDir != "" {
		cfg.Service.Copy = filepath.Join(pods.StateDir, "rules-"+f.Domain)
	}
	if err := cfg.Service.Validate(); err != nil {
		fault("rules", withoutSecrets(f.Rules), err.Error())
	}
	return cfg
}

// podName is the name that this gateway reports by: the same after a restart where
// the host has one, as a pod of a StatefulSet has.
func (f *storeFlags) podName() string {
	if f.PodID != "" {
		return f.PodID
	}
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// withoutSecrets is a list of URLs without what stands before an @ in each.
func withoutSecrets(text string) string {
	urls := strings.Split(text, ",")
	for i := range urls {
		urls[i] = withoutUser(urls[i])
	}
	return strings.Join(urls, ",")
}

// open reads the certificates that the flags name. run follows them until its context
// ends; it is nil where there is nothing to follow.
func (c *RulesConfig) open(log *slog.Logger) (run func(context.Context), err error) {
	with := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		text, err := filewatch.Read(c.CA, pemMax)
		if err != nil {
			return nil, fmt.Errorf("--rules-ca: %w", err)
		}
		if with.RootCAs = x509.NewCertPool(); !with.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--rules-ca: no PEM certificate in %s", c.CA)
		}
	}
	if c.Cert != "" {
		certificate, err := serve.OpenCertificate(c.Cert, c.Key, log)
		if err != nil {
			return nil, fmt.Errorf("--rules-cert: %w", err)
		}
		current := certificate.TLS().GetCertificate
		with.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return current(nil) }
		run = certificate.Run
	}
	c.Service.TLS = with
	return run, nil
}
