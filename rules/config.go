package rules

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/telemetry"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// flags is the command line of the service as text: config reads it in one go, so
// that all that is wrong is said at once.
type flags struct {
	Listen string `default:"127.0.0.1:8082" placeholder:"HOST:PORT" help:"Address to serve the API and the watch on, HTTP/1.1 and HTTP/2, without TLS unless --tls-cert is given (default 127.0.0.1:8082)."`
	Admin  string `default:"127.0.0.1:9082" placeholder:"HOST:PORT" help:"Address of /healthz, /readyz and /metrics, for operators only (default 127.0.0.1:9082)."`

	storeFlags `embed:""`

	Domain   string `default:"public-api" placeholder:"NAME" help:"Domain of requests that name none (default public-api)."`
	SeedFile string `placeholder:"FILE" help:"Rule file to fill an empty domain with at the start. It is not looked at again once the domain has rules."`

	rolloutFlags `embed:""`

	AdminTokenFile string `placeholder:"FILE" help:"Where the first token with the role admin is written, for its owner alone, if the store has no tokens; a token that stands there is taken (default: rules-admin.token in the user's state directory)."`
	PodTokenFile   string `placeholder:"FILE" help:"The same for a token with the role pod (default: none is made)."`

	command.TLSFlags       `embed:""`
	command.DrainFlags     `embed:""`
	command.LogFlags       `embed:""`
	command.TelemetryFlags `embed:""`

	Pprof bool `help:"Serve /debug/pprof/ on --admin."`
}

// Help is shown by rules --help.
func (*flags) Help() string {
	return `Without --store it keeps the rules in memory: for trying it, they end with the
process. Another command, "rules token", makes a token without one.

Every flag can also be given by the environment variable beside it. Durations
are written as 500ms, 30s or 2m. The exit code is 0 after a clean end, 1 after a
failure, 2 if the command line or what it names is wrong.`
}

// storeFlags say where the rules are kept.
type storeFlags struct {
	Store          string `default:"memory" placeholder:"memory|postgres://HOST:PORT/DATABASE" help:"Where the rules are kept: memory, where they end with the process; or a PostgreSQL database, which several instances may share (default memory)."`
	StorePassword  string `name:"store-password-file" placeholder:"FILE" help:"File that holds the password of the database's user, read at each connection (default: none, or what PostgreSQL's own variables say)."`
	StoreListenURL string `name:"store-listen-url" placeholder:"URL" help:"The same database without a pooler between, for LISTEN and migrations. Without hints of LISTEN changes are found by polling (default: --store)."`
}

// rolloutFlags say how an edit reaches the pods.
type rolloutFlags struct {
	Rollout         string `default:"guarded" placeholder:"guarded|immediate" help:"How an edit reaches the pods if it does not say so itself: guarded, in shadow and then on canary pods first; or immediate (default guarded)."`
	RolloutBake     string `default:"1m" placeholder:"DURATION" help:"How long an edit stays in shadow, and then on canary pods, 1s to 24h (default 1m)."`
	RolloutMargin   string `default:"0.05" placeholder:"SHARE" help:"By how much more of the requests than the rule in force an edit may refuse, 0 to 1; above it is rolled back (default 0.05)."`
	RolloutEvidence string `default:"100" placeholder:"N" help:"Requests that must have met an edit before its guard judges it, 1 to 1000000 (default 100)."`
}

// Config is a checked configuration.
type Config struct {
	Listen, Admin string // HOST:PORT

	Store     string // URL; "" for memory
	ListenURL string // URL; "" for Store
	Password  string // path; "" for none

	Domain   string
	SeedFile string // path; "" for none

	Rollout  rulesv1.RolloutMode
	Bake     time.Duration
	Margin   float64
	Evidence int64

	AdminToken, PodToken string // paths; "" for none

	TLS    command.TLSFlags
	Drain  serve.Config // without a logger
	Log    command.Log
	Export telemetry.Export
	Pprof  bool
}

// Bounds of flags.
const (
	bakeMin     = time.Second
	bakeMax     = 24 * time.Hour
	evidenceMax = 1_000_000
)

// config checks the flags; the error names every fault, each with its flag.
func (f *flags) config() (Config, error) {
	var faults command.Faults
	cfg := Config{
		Listen: faults.Address("listen", f.Listen), Admin: faults.Address("admin", f.Admin),
		Domain: f.Domain, SeedFile: f.SeedFile, TLS: f.TLSFlags, Pprof: f.Pprof,
		Bake:     faults.Duration("rollout-bake", f.RolloutBake, bakeMin, bakeMax),
		Margin:   faults.Share("rollout-margin", f.RolloutMargin),
		Evidence: faults.Int("rollout-evidence", f.RolloutEvidence, 1, evidenceMax),
		Drain:    f.DrainFlags.Config(&faults), Log: f.LogFlags.Config(&faults), Export: f.TelemetryFlags.Config(&faults),
		PodToken: f.PodTokenFile,
	}
	f.read(&cfg, &faults)
	f.Check(&faults)
	if err := limit.ValidateName("domain", f.Domain); err != nil {
		faults.Add("domain", f.Domain, "want 1 to 64 of a-z, 0-9, '-', '_' and '.', beginning with a letter or digit")
	}
	modes := map[string]rulesv1.RolloutMode{"guarded": rulesv1.RolloutMode_ROLLOUT_MODE_GUARDED, "immediate": rulesv1.RolloutMode_ROLLOUT_MODE_IMMEDIATE}
	if cfg.Rollout = modes[f.Rollout]; cfg.Rollout == 0 {
		faults.Add("rollout", f.Rollout, "want guarded or immediate")
	}
	state, err := stateDir()
	if f.AdminTokenFile == "" && err != nil {
		faults.Add("admin-token-file", "", "is missing, and there is no directory for it: "+err.Error())
	}
	cfg.AdminToken = cmp.Or(f.AdminTokenFile, filepath.Join(state, "rules-admin.token"))
	return cfg, faults.Err()
}

func (f *storeFlags) read(cfg *Config, faults *command.Faults) {
	if f.Store == "memory" {
		if f.StorePassword != "" || f.StoreListenURL != "" {
			faults.Add("store", f.Store, "has no password and no URL to listen at")
		}
		return
	}
	cfg.Store, cfg.ListenURL, cfg.Password = f.Store, f.StoreListenURL, f.StorePassword
	for flag, text := range map[string]string{"store": f.Store, "store-listen-url": f.StoreListenURL} {
		if problem := databaseProblem(text); problem != "" && (text != "" || flag == "store") {
			faults.Add(flag, command.WithoutUser(text), problem)
		}
	}
}

// databaseProblem says what is wrong with the URL of a database.
func databaseProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || strings.Trim(u.Path, "/") == "":
		return "want memory or postgres://[USER@]HOST[:PORT]/DATABASE[?sslmode=…]"
	case hasPassword(u):
		return "must not hold a password: it would show in process lists and logs; give --store-password-file"
	}
	return ""
}

func hasPassword(u *url.URL) bool {
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

// stateDir is where a user's programs keep what outlives them (XDG).
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "shiplane"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("give XDG_STATE_HOME or HOME: %w", err)
	}
	return filepath.Join(home, ".local", "state", "shiplane"), nil
}
