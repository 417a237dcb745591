package counters

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/shiplane/limits/libs/bearer"
	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/store/remote"
	"github.com/shiplane/limits/libs/store/storemeter"
)

// CheckerFlags are the flags of a program whose counters may also be at checkers, which
// have a store.
type CheckerFlags struct {
	Checker        string `placeholder:"URL,..." help:"Checkers that keep the counters, in the place of --store: http://HOST:8081[,http://HOST2:8081] or https://…, each of one checker or of a balancer before several (default: none, see --store)."`
	CheckerToken   string `name:"checker-token-file" placeholder:"FILE" help:"File that holds the token for the checkers, one of their --pod-token-file; followed, so that it can be replaced (default: none is sent)."`
	CheckerCA      string `name:"checker-ca" placeholder:"FILE" help:"PEM certificates that the checkers' are verified against, with https:// (default: the system's)."`
	CheckerCert    string `name:"checker-cert" placeholder:"FILE" help:"PEM certificate that this pod shows to the checkers, followed while running. Needs --checker-key."`
	CheckerKey     string `name:"checker-key" placeholder:"FILE" help:"PEM key of --checker-cert, followed while running."`
	CheckerTimeout string `default:"12ms" placeholder:"DURATION" help:"How long an answer of a checker may take before the rules' fail modes decide, 1ms to 1s: its --store-timeout and the network (default 12ms)."`
}

// Config checks these flags, and those of the store that they replace.
func (f *CheckerFlags) Config(s *StoreFlags, faults *command.Faults) Config {
	cfg := s.Config(faults)
	timeout := faults.Duration("checker-timeout", f.CheckerTimeout, timeoutMin, timeoutMax)
	cfg.Token = f.CheckerToken
	cfg.CheckersTLS = command.ClientTLS{Flags: "checker", CA: f.CheckerCA, Cert: f.CheckerCert, Key: f.CheckerKey}
	cfg.CheckersTLS.Check(faults)
	if f.Checker == "" {
		f.checkUnused(faults)
		return cfg
	}
	if s.Store != memoryStore {
		faults.Add("checker", command.WithoutUsers(f.Checker), "and --store exclude each other: the checkers have the store")
	}
	s.member(&cfg.Members, faults)
	cfg.Checkers = remote.Config{URLs: strings.Split(f.Checker, ","), Timeout: timeout}
	if err := cfg.Checkers.Validate(); err != nil {
		faults.Add("checker", command.WithoutUsers(f.Checker), err.Error())
	}
	return cfg
}

// checkUnused notes flags that are of no use without --checker.
func (f *CheckerFlags) checkUnused(faults *command.Faults) {
	for _, given := range [...]struct{ flag, value string }{
		{"checker-token-file", f.CheckerToken}, {"checker-ca", f.CheckerCA}, {"checker-cert", f.CheckerCert}, {"checker-key", f.CheckerKey},
	} {
		if given.value != "" {
			faults.Add(given.flag, given.value, "is for checkers: want their URLs in --checker")
		}
	}
}

// openCheckers opens the checkers as a store. The token and the certificate are
// followed while the process runs.
func openCheckers(process *serve.Process, cfg Config, meter *storemeter.Meter, log *slog.Logger) (*network, error) {
	token, err := bearer.Open("", cfg.Token, log)
	if err != nil {
		return nil, serve.Usage(fmt.Errorf("--checker-token-file: %w", err))
	}
	secure, certificate, err := cfg.CheckersTLS.Open(log)
	if err != nil {
		return nil, serve.Usage(err)
	}
	cfg.Checkers.Token, cfg.Checkers.TLS = token.Text, secure
	cfg.Checkers.Observer, cfg.Checkers.Logger = meter, log
	s, err := remote.New(cfg.Checkers)
	if err != nil {
		return nil, serve.Usage(fmt.Errorf("--checker: %w", err))
	}
	process.Go("token for the checkers", func(ctx context.Context) error { token.Follow(ctx); return nil })
	if certificate != nil {
		process.Go("certificate for the checkers", func(ctx context.Context) error { certificate(ctx); return nil })
	}
	return &network{s, s, s.Reached(), s.Close}, nil
}
