package stack

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/shiplane/limits/libs/testenv"
)

// Kinds of what is started, as status tells them.
const (
	KindRedis    = "redis"
	KindPostgres = "postgres"
	KindUpstream = "upstream"
	KindRules    = "rules"
	KindChecker  = "checker"
	KindGateway  = "gateway"
)

// Files of the folder that people use, too.
const (
	AdminTokenFile = "admin.token"
	AuthFile       = "auth" // the same as a header, for curl -H @FILE
	podTokenFile   = "pod.token"
)

// podRights are the ACL rules of pods: docs/gateway.md has them for operators.
const podRights = "~rl:* +@read +@write +@scripting +@connection +time +cluster|slots +cluster|shards +cluster|nodes"

// podUser is whom pods sign in as where Redis asks.
const podUser = "pod"

func (c *Config) file(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}

func (c *Config) program(name string) string { return filepath.Join(c.Programs, name) }

// upstream is the API behind the gateways.
func (c *Config) upstream() *service {
	api, _ := c.at(c.host(0, sharedHost), upstreamPort)
	return newService(c, "upstream", KindUpstream, "", api, "", append(c.Upstream[:len(c.Upstream):len(c.Upstream)], "--listen", api))
}

// rules is the rules service, on a Postgres database.
func (c *Config) rules(database string) (*service, error) {
	u, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	secret := c.file("postgres.password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return nil, err
	}
	api, admin := c.at(c.host(0, sharedHost), rulesPort)
	args := []string{
		c.program("rules"), "--listen", api, "--admin", admin, "--store", u.String(), "--store-password-file", secret, "--seed-file", c.RulesFile,
		"--admin-token-file", c.file(AdminTokenFile), "--pod-token-file", c.file(podTokenFile), "--rollout-bake", c.RolloutBake.String(),
	}
	if c.TLS {
		if err := os.Mkdir(c.file("tls"), 0o700); err != nil {
			return nil, err
		}
		if _, err := testenv.Certify(c.file("tls"), c.host(0, sharedHost)); err != nil {
			return nil, err
		}
		args = append(args, "--tls-cert", c.file("tls", testenv.CertFile), "--tls-key", c.file("tls", testenv.KeyFile))
	}
	return newService(c, "rules", KindRules, c.Regions[0], api, admin, args), nil
}

// RulesURL is where the rules service answers.
func (c *Config) RulesURL() string {
	api, _ := c.at(c.host(0, sharedHost), rulesPort)
	if c.TLS {
		return "https://" + api
	}
	return "http://" + api
}

// pod is what a gateway and a checker of a region have in common.
func (c *Config) pod(r *region, name string) []string {
	store := "redis://"
	if c.TLS {
		store = "rediss://"
	}
	args := []string{
		"--store", store + strings.Join(r.redis.Addresses(), ","), "--store-timeout", c.StoreTimeout.String(),
		"--region", r.name, "--region-pods", strconv.Itoa(c.pods()), "--pod-id", name, "--state-dir", c.file(name, "state"),
		"--rules", c.RulesURL(), "--rules-token-file", c.file(podTokenFile),
	}
	if c.TLS {
		args = append(args, "--store-user", podUser, "--store-password-file", r.secret, "--store-ca", r.redis.CAFile(),
			"--rules-ca", c.file("tls", testenv.CAFile))
	}
	return args
}

// checker is a region's, Connect, JSON and native gRPC.
func (c *Config) checker(r *region) *service {
	name, host := r.name+"-checker", c.host(r.number, sharedHost)
	api, admin := c.at(host, checkerPort)
	grpc, _ := c.at(host, checkerGRPCPort)
	args := append([]string{c.program("checker"), "--listen", api, "--grpc-listen", grpc, "--admin", admin, "--drain-delay=0s"}, c.pod(r, name)...)
	return newService(c, name, KindChecker, r.name, api, admin, args)
}

// gateway is the i-th of a region, from 1 on. The first one is a canary.
func (c *Config) gateway(r *region, i int) *service {
	name := fmt.Sprintf("%s-gateway-%d", r.name, i)
	api, admin := c.at(c.host(r.number, gatewayHost+i), gatewayPort)
	upstream, _ := c.at(c.host(0, sharedHost), upstreamPort)
	args := append([]string{c.program("gateway"), "--listen", api, "--admin", admin, "--upstream", "http://" + upstream, "--keys", c.KeysFile}, c.pod(r, name)...)
	if i == 1 {
		args = append(args, "--canary")
	}
	return newService(c, name, KindGateway, r.name, api, admin, args)
}
