package gateway

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// asGateway makes this test binary the gateway, for tests of a whole process.
const asGateway = "SHIPLANE_TEST_AS_GATEWAY"

func TestMain(m *testing.M) {
	if os.Getenv(asGateway) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// inProcess is a gateway in a process of its own.
func inProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, args...)
	c.Env = append(os.Environ(), asGateway+"=1")
	return c
}

// TestSIGTERMDrains: the request in flight is answered in full, new connections
// are refused, and the process ends with exit code 0.
func TestSIGTERMDrains(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-release
		echo(w, r)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules.yaml")
	replace(t, rules, testRules)
	c := inProcess(t, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--upstream", upstream.URL, "--rules", rules)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	addresses, logged := make(chan string, 1), make(chan string, 1)
	go func() {
		var all bytes.Buffer
		for s := bufio.NewScanner(io.TeeReader(stderr, &all)); s.Scan(); {
			if found := regexp.MustCompile(`msg=listening api=(\S+)`).FindStringSubmatch(s.Text()); found != nil {
				addresses <- found[1]
			}
		}
		logged <- all.String()
	}()
	api := receive(t, addresses, "address")
	answered := make(chan answer, 1)
	go func() {
		r, err := http.NewRequest(http.MethodGet, "http://"+api+"/", nil)
		if err != nil {
			t.Error(err)
		}
		answered <- send(t, http.DefaultTransport, r)
	}()
	receive(t, arrived, "request at the upstream")
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	poll(t, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", api)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	close(release)
	receive(t, answered, "answer").want(t, 200, "GET / ")
	log := receive(t, logged, "end of the log")
	if err := c.Wait(); err != nil {
		t.Errorf("the process ended with %v:\n%s", err, log)
	}
	if !strings.Contains(log, "draining") {
		t.Errorf("the log does not tell of the drain:\n%s", log)
	}
}

// TestBadCommandLinesExitWith2: each fault is named with its flag and what is
// wanted, all of them at once, and nothing is served.
func TestBadCommandLinesExitWith2(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		replace(t, path, text)
		return path
	}
	good, goodKeys := file("good.yaml", testRules), file("keys.yaml", testKeys("small-1"))
	upstream := "--upstream=http://127.0.0.1:9"
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"an unknown flag", []string{"--colour=red"}, []string{"unknown flag --colour"}},
		{"an unknown command", []string{"serve"}, []string{"serve"}},
		{"many faults", []string{
			"--mode=on", "--drain-delay=-1s", "--drain-timeout=soon", "--log-level=loud", "--log-format=xml",
			"--login-body-max=0", "--trusted-proxies=10.0.0.0/8,10.0.0.0/33", "--listen=8080", "--admin=127.0.0.1:70000", "--rules=x",
		}, []string{
			`--mode "on": want enforce, shadow or off`, `--drain-delay "-1s": want a duration of 0s to 10m0s`, `--drain-timeout "soon"`,
			`--log-level "loud": want debug, info, warn or error`, `--log-format "xml": want text or json`,
			`--login-body-max "0": want a whole number of 1 to 16777216`, `--trusted-proxies "10.0.0.0/33"`, `--listen "8080": want HOST:PORT`,
			`--admin "127.0.0.1:70000"`, `--upstream "": is missing`, "11 faults",
		}},
		{"a password in a flag", []string{"--upstream=http://me:secret@h", "--rules", good}, []string{"--upstream", "must not hold a user or password"}},
		{"an upstream without rules", []string{upstream}, []string{"--rules"}},
		{"keys alone", []string{"--keys", goodKeys}, []string{"--rules", "--upstream"}},
		{"the demo for everybody", []string{"--listen=0.0.0.0:0"}, []string{`--listen "0.0.0.0:0"`, "known to everybody"}},
		{"a port in use", []string{upstream, "--rules", good, "--admin=127.0.0.1:0", "--listen", taken.Addr().String()},
			[]string{"--listen " + taken.Addr().String(), "in use"}},
		{"no rule file", []string{upstream, "--rules", filepath.Join(dir, "none.yaml")}, []string{"--rules", "none.yaml", "no such file"}},
		{"a bad rule file", []string{upstream, "--rules", file("bad.yaml", strings.Replace(testRules, "burst: 12", "burst: 9", 1))},
			[]string{"--rules", "bad.yaml", "burst"}},
		{"a bad key file", []string{upstream, "--rules", good, "--keys", file("badkeys.yaml", "- {hash: x, account: a, plan: gold}\n- 7\n")},
			[]string{"--keys", "badkeys.yaml", "1:10: keys[0].hash", "2:3: keys[1]"}},
		{"a key of an unknown plan", []string{upstream, "--rules", good, "--keys", file("gold.yaml", testKeys("small-1", "gold-1"))},
			[]string{"gold.yaml", `keys[1].plan is "gold"`}},
		{"hash-key without an account", []string{"hash-key", "--plan=free"}, []string{"--account"}},
		{"hash-key of nothing", []string{"hash-key", "--account=a", "--plan=free"}, []string{"the key has 0 bytes"}},
		{"hash-key with a bad account", []string{"hash-key", "--new", "--account=a b", "--plan=free"}, []string{"account"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := Main(c.args, strings.NewReader(""), &stdout, &stderr); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("the error lacks %q:\n%s", want, &stderr)
				}
			}
			if strings.Contains(stderr.String(), "secret") || stdout.Len() > 0 {
				t.Errorf("printed %s%s", &stdout, &stderr)
			}
		})
	}
}

// TestHelpNamesEveryFlagAndItsVariable: and what it is without.
func TestHelpNamesEveryFlagAndItsVariable(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"--help"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	for _, flag := range []string{
		"listen", "admin", "upstream", "rules", "keys", "require-key", "store", "mode", "trusted-proxies", "x-ratelimit-headers",
		"login-body-max", "drain-delay", "drain-timeout", "log-format", "log-level", "pprof",
	} {
		variable := "($SHIPLANE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) + ")"
		if !strings.Contains(stdout.String(), "--"+flag) || !strings.Contains(stdout.String(), variable) {
			t.Errorf("--help lacks --%s or %s:\n%s", flag, variable, &stdout)
		}
	}
}

// TestEnvironmentIsReadAndFlagsWin: a deployment sets variables, a person flags.
func TestEnvironmentIsReadAndFlagsWin(t *testing.T) {
	t.Setenv("SHIPLANE_MODE", "shadow")
	t.Setenv("SHIPLANE_DRAIN_DELAY", "5s")
	t.Setenv("SHIPLANE_X_RATELIMIT_HEADERS", "true")
	cfg := configOf(t, "--mode=off")
	if cfg.Mode != "off" || cfg.Drain.DrainDelay.String() != "5s" || !cfg.Legacy {
		t.Errorf("configuration is %+v", cfg)
	}
}

// TestHashedKeyCanBeUsed: what hash-key prints is an entry that the gateway takes,
// for a key from standard input and for a new one.
func TestHashedKeyCanBeUsed(t *testing.T) {
	hash := func(stdin string, args ...string) (entry, said string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{"hash-key", "--account=acct_'7", "--plan=small", "--name=it's mine"}, args...)
		if code := Main(args, strings.NewReader(stdin), &stdout, &stderr); code != 0 {
			t.Fatalf("exit code %d: %s", code, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	given, said := hash("a-key-of-more-than-20-bytes\n")
	if said != "" {
		t.Errorf("hash-key said %s", said)
	}
	if _, said := hash("short"); !strings.Contains(said, "may be guessed") {
		t.Errorf("of a short key it said %q", said)
	}
	made, said := hash("", "--new")
	key := regexp.MustCompile(`slk_\S+`).FindString(said)
	if key == "" || strings.Contains(made, key) {
		t.Fatalf("a new key: said %q, printed %q", said, made)
	}
	g := start(t, echoes, "--require-key")
	replace(t, g.keys, given+made)
	poll(t, "the keys are loaded", func() bool {
		return g.do("GET", "/", "", "X-Api-Key", "a-key-of-more-than-20-bytes").StatusCode == 200
	})
	g.do("GET", "/", "", "X-Api-Key", key).want(t, 200, "")
}

// TestDemoRunsAndSaysSo: without flags the embedded rules, keys and upstream work
// together, and what is printed names the addresses to try.
func TestDemoRunsAndSaysSo(t *testing.T) {
	c := inProcess(t, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		var all strings.Builder
		for s := bufio.NewScanner(stdout); s.Scan(); {
			all.WriteString(s.Text() + "\n")
			if strings.Contains(s.Text(), "Ctrl-C") {
				said <- all.String()
			}
		}
	}()
	welcome := receive(t, said, "welcome")
	api := regexp.MustCompile(`http://(127\.0\.0\.1:\d+)/v1/labels`).FindStringSubmatch(welcome)
	if api == nil || !strings.Contains(welcome, "DEMO") || strings.Count(welcome, "curl ") != 3 {
		t.Fatalf("welcome:\n%s", welcome)
	}
	for key, policy := range map[string]string{
		"demo-free": `"free-global";q=20;w=2`, "demo-growth": `"growth-global";q=200;w=2`, "demo-enterprise": `"enterprise-global";q=2000;w=2`,
	} {
		r, err := http.NewRequest(http.MethodGet, "http://"+api[1]+"/v1/labels", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		a := send(t, http.DefaultTransport, r).want(t, 200, `"path":"/v1/labels"`)
		if got := a.Header.Get("RateLimit-Policy"); !strings.Contains(got, policy) || !strings.Contains(got, `"labels-route";q=2000;w=2`) {
			t.Errorf("%s: policy is %s", key, got)
		}
	}
	if err := c.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, &stderr)
	}
}
