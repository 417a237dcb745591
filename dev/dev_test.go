package dev

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/dev/internal/stack"
)

// Everything that is wrong with a command line is said at once, with the flag and
// what is allowed, before anything is started.
func TestFaultsAreToldTogether(t *testing.T) {
	var out, problems bytes.Buffer
	code := Main([]string{"--dir", t.TempDir(), "up", "--regions", "a,a,B", "--shards", "65", "--replicas", "-1", "--gateways", "0", "--node-timeout", "1ms",
		"--store-timeout", "2s", "--rollout-bake", "x", "--network", "256", "--port-shift", "99999", "--rules", "nowhere", "--keys", "nowhere", "--bin", "nowhere"}, &out, &problems)
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	for _, want := range []string{
		`region "a": want`, `region "B": want`, `--shards "65": want a whole number of 1 to 64`, `--replicas "-1"`, `--gateways "0"`, `--node-timeout "1ms"`,
		`--store-timeout "2s"`, `--rollout-bake "x"`, `--network "256"`, `--port-shift "99999"`, `--rules "nowhere"`, `--keys "nowhere"`, "gateway", "checker", "make dev builds it",
	} {
		if !strings.Contains(problems.String(), want) {
			t.Errorf("lacks %q in\n%s", want, &problems)
		}
	}
}

// What a command would have to guess, or does not know, is refused with what is
// allowed, before the system is asked.
func TestFaultsOfOrdersAreNamed(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"kill-primary", "east", "1", "--account", "acct_free"}, "want shard 1 or --account acct_free, not both"},
		{[]string{"logs", "rules", "-n", "-4"}, `--lines "-4": want a whole number of 0 to`},
	} {
		var out, problems bytes.Buffer
		code := Main(append([]string{"--dir", t.TempDir()}, c.args...), &out, &problems)
		if code != 2 || !strings.Contains(problems.String(), c.want) {
			t.Errorf("%v: exit code %d, want 2; says %q, want %q", c.args, code, &problems, c.want)
		}
	}
}

func example() stack.Status {
	revision, pods := int64(7), int64(4)
	shards := []stack.Shard{{Slots: "0-8191", Primary: "east-redis-00", Replicas: []string{"east-redis-02"}}}
	return stack.Status{
		PID: 42, Since: time.Now(), Took: 2600 * time.Millisecond, Dir: "/tmp/x", RulesURL: "http://127.0.1.1:8082",
		Regions: []stack.RegionStatus{
			{Name: "east", Slots: 8192, Shards: shards, Partitioned: true, Gateways: []string{"127.0.1.11:8080", "127.0.1.12:8080"}},
			{Name: "west", Fault: "it is starting still"},
		},
		Parts: []stack.PartStatus{
			{Name: "rules", State: stack.Running, PID: 1, Memory: 30 << 20, Address: "127.0.1.1:8082", Revision: &revision},
			{Name: "east-gateway-1", State: stack.Frozen, PID: 2, Address: "127.0.1.11:8080", Revision: &revision, Pods: &pods, Breakers: map[string]string{"0": "closed", "8192": "open"}},
			{Name: "east-gateway-2", State: stack.Running, PID: 5, Address: "127.0.1.12:8080", Pods: &pods},
			{Name: "east-redis-00", Kind: stack.KindRedis, State: stack.Running, PID: 3},
			{Name: "east-redis-01", Kind: stack.KindRedis, State: stack.Dead, PID: 4, Address: "127.0.1.1:4711"},
		},
	}
}

// The table shows what is wrong at a glance: slots that nobody serves, a region that
// is cut off, what is dead, which breaker is open. Redis servers that run are no row.
func TestTableShowsWhatIsWrong(t *testing.T) {
	s := example()
	var out bytes.Buffer
	if err := table(&out, &s, false); err != nil {
		t.Fatal(err)
	}
	want := `Up for 0s (ready in 2.6s): 4 processes, 30 MiB; owner 42, folder /tmp/x

REGION  SLOTS                              SERVED BY      REPLICAS
east    0-8191 (cut off from its pods)     east-redis-00  east-redis-02
east    8192 slots (cut off from its pods)  nobody         -
west    it is starting still                              

PROCESS         STATE    PID  MIB  ADDRESS          RULES  PODS  BREAKERS
rules           running  1    30   127.0.1.1:8082   7      -     -
east-gateway-1  frozen   2    0    127.0.1.11:8080  7      4     open 8192
east-gateway-2  running  5    0    127.0.1.12:8080  -      4     closed
east-redis-01   dead     4    0    127.0.1.1:4711   -      -     -
`
	fields := func(text string) (rows [][]string) {
		for line := range strings.Lines(text) {
			rows = append(rows, strings.Fields(line))
		}
		return rows
	}
	if diff := cmp.Diff(fields(want), fields(out.String())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A table is cut to the terminal, with a word of what it lacks; one that fits is whole.
func TestTableFitsTheTerminal(t *testing.T) {
	text := "1\n2\n3\n4\n5\n"
	if got := cutTo(text, 10); got != text {
		t.Errorf("got %q", got)
	}
	if got := cutTo(text, 4); strings.Count(got, "\n") != 3 || !strings.Contains(got, "more lines") {
		t.Errorf("got %q", got)
	}
}

// What a start prints can be typed as it stands: it names this system's addresses
// and files.
func TestWelcomeNamesAddresses(t *testing.T) {
	s := example()
	var out bytes.Buffer
	welcome(&out, &s)
	for _, want := range []string{"http://127.0.1.11:8080/v1/labels", "http://127.0.1.1[1-2]:8080/", "@/tmp/x/auth http://127.0.1.1:8082/v1/rules", "kill-primary east"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q in\n%s", want, &out)
		}
	}
	s.RulesURL = "https://127.0.1.1:8082"
	out.Reset()
	welcome(&out, &s)
	if !strings.Contains(out.String(), "--cacert /tmp/x/tls/ca.pem https://127.0.1.1:8082") {
		t.Errorf("with TLS:\n%s", &out)
	}
}

// The last lines of a log are shown, and what is written after is there to follow.
func TestEndOfALogIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{0: "", 1: "three\n", 2: "two\nthree\n", 9: "one\ntwo\nthree\n"} {
		log, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		var out bytes.Buffer
		if err := copyEnd(&out, log, lines); err != nil || out.String() != want {
			t.Errorf("%d lines: %q, %v", lines, &out, err)
		}
	}
	log, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := os.Remove(path); err != nil { // a log that is gone ends what follows it
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := follow(t.Context(), &out, log); err != nil || out.String() != "one\ntwo\nthree\n" {
		t.Errorf("followed %q, %v", &out, err)
	}
}
