package rulesource_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
)

const rules = `
rules:
  - {id: global, scope: all, identity: ip, algorithm: token_bucket, rate: 1/s, burst: 10}
`

// open opens what --rules and the flags say; the faults of flags are its error.
func open(t *testing.T, text string, f rulesource.ServiceFlags, copies string) (*rulesource.Source, error) {
	t.Helper()
	var faults command.Faults
	f.CheckRules(rulesource.IsService(text), &faults)
	cfg := f.Config(text, "public-api", rulesource.Pod{Name: "pod", Region: "local", Copies: copies}, ruleset.Naming{IPv6Prefix: 56}, &faults)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return rulesource.Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
}

// A rule file is had at once, named as the flags say, and is no service's: what is
// told for the rules service goes nowhere.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, path, rulesource.ServiceFlags{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, n := s.Figures(); n != 1 || s.FromService() || s.Ready() != nil || s.Now().IsZero() || len(s.Follow()) != 1 || s.Current().Naming().IPv6Prefix != 56 {
		t.Errorf("%d rules, from a service %v, ready %v, named by %+v", n, s.FromService(), s.Ready(), s.Current().Naming())
	}
	s.Decided(&limit.Decision{})
	s.Shadow(s.Current().Rules()[0], 1, 1)
}

// A service that is away is no fault: there are no rules until it is heard.
func TestServiceThatIsAway(t *testing.T) {
	s, err := open(t, "http://127.0.0.1:1", rulesource.ServiceFlags{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if revision, n := s.Figures(); n != 0 || revision != 0 || !s.FromService() || s.Ready() == nil || s.Current() != nil {
		t.Errorf("%d rules of revision %d, ready %v", n, revision, s.Ready())
	}
}

// What the flags name and is not there, or does not belong together, is told with the
// flag.
func TestFaultsNameTheirFlag(t *testing.T) {
	for _, c := range []struct {
		rules string
		flags rulesource.ServiceFlags
		want  string
	}{
		{"/nonexistent", rulesource.ServiceFlags{}, "/nonexistent"},
		{"rules.yaml", rulesource.ServiceFlags{RulesToken: "x"}, `--rules-token-file "x": is for the rules service`},
		{"http://a", rulesource.ServiceFlags{RulesCert: "x"}, `--rules-cert "x": and --rules-key go together`},
		{"http://a", rulesource.ServiceFlags{RulesCA: "/nonexistent"}, "--rules-ca: "},
		{"http://a", rulesource.ServiceFlags{RulesCert: "/nonexistent", RulesKey: "/nonexistent"}, "--rules-cert: "},
		{"ftp://a", rulesource.ServiceFlags{}, `--rules "ftp://a"`},
	} {
		if _, err := open(t, c.rules, c.flags, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %s", c.rules, c.flags, err, c.want)
		}
	}
}
