package sim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/shiplane/limits/perf/sim"
)

// The data path comes to what the table wants, and what must hold in every run
// holds. The slow scenarios are left to the command, and most to a run that is
// not short.
func TestScenarios(t *testing.T) {
	for i, s := range sim.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if s.Slow || testing.Short() && i%4 != 0 {
				t.Skip("takes too long")
			}
			t.Parallel()
			row, err := s.Run(sim.Config{Seed: 1})
			if err != nil {
				t.Error(err)
			}
			for _, fault := range row.Faults {
				t.Error(fault)
			}
			t.Log("\n" + sim.Header + "\n" + row.String())
		})
	}
}

// A run is a function of its seed.
func TestRunsCanBeRepeated(t *testing.T) {
	for _, name := range []string{"1,500/s over 50", "an address and an account, the store flaky", "three regions, a share moves, 1.5 R"} {
		s := scenario(t, name)
		var rows []sim.Row
		for _, seed := range []uint64{7, 7, 8} {
			row, err := s.Run(sim.Config{Seed: seed, Jitter: 0.2})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		ignore := cmpopts.IgnoreFields(sim.Row{}, "Scenario")
		if diff := cmp.Diff(rows[0], rows[1], ignore); diff != "" {
			t.Errorf("%s: two runs of one seed differ:\n%s", name, diff)
		}
		if cmp.Equal(rows[0], rows[2], ignore) {
			t.Errorf("%s: runs of two seeds are the same", name)
		}
	}
}

// A shadow rule changes no verdict: with an exhausted one beside it every
// request is decided as it is without.
func TestShadowChangesNoVerdict(t *testing.T) {
	row, err := scenario(t, "a rule of 100/s in shadow, 900/s").Run(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if row.Admitted != row.Offered {
		t.Errorf("admitted %d of %d", row.Admitted, row.Offered)
	}
}

func scenario(t *testing.T, name string) sim.Scenario {
	t.Helper()
	for _, s := range sim.Scenarios() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", name)
	return sim.Scenario{}
}

// The command's exit code says whether every scenario holds, and its page needs
// no other file.
func TestCommand(t *testing.T) {
	page := filepath.Join(t.TempDir(), "sim.html")
	for _, c := range []struct {
		name string
		args string
		code int
		says string
	}{
		{"all hold", "-run=900/s_on -html " + page, 0, "all 1 scenarios hold"},
		{"one falls short: every call takes longer than the timeout", "--run=900/s_on --rtt 11ms", 1, "FALLS SHORT"},
		{"no such scenario", "--run=acme-shop", 2, `no scenario's name contains "acme-shop"`},
		{"a flag out of range", "--jitter 1.5", 2, "want 0 to 1"},
		{"an unknown flag", "--speed 2", 2, "speed"},
		{"a page that cannot be written", "--run=900/s_on --html /nowhere/page.html", 2, "/nowhere/page.html"},
		{"help", "--help", 0, "--jitter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			args := strings.Fields(c.args)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "_", " ")
			}
			if code := sim.Main(args, &out, &out); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, &out)
			}
		})
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"900/s on 2 pods", "<polyline", `class="bar"`, "All 1 scenarios hold", "tokens on lease or on the wire"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, other := range []string{"src=", "http:", "https:", "url(", "%!", "ZgotmplZ"} {
		if bytes.Contains(text, []byte(other)) {
			t.Errorf("the page has %q", other)
		}
	}
}
