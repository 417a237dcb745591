package loadgen

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/limit"
)

// A stream says all that there is to say of its traffic.
func TestStreamIsRead(t *testing.T) {
	var got Stream
	err := got.UnmarshalText([]byte("plan=free,key=demo-free,rate=30/m,path=/v1/labels?a=b,method=POST,limit=10/s,burst=20,cost=10"))
	want := Stream{Plan: "free", Key: "demo-free", Rate: 0.5, Path: "/v1/labels?a=b", Method: "POST", Cost: 10,
		Limit: limit.Limit{Rate: 10, Burst: 20}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

// Each fault of a stream is named with its field, and all of them at once.
func TestStreamFaultsAreNamed(t *testing.T) {
	for text, wants := range map[string][]string{
		"":                                  {`"": want name=value`, "plan is missing", "rate is missing"},
		"plan=Free,rate=0/s":                {`plan "Free"`, "rate of 0 tokens/s is out of range"},
		"plan=a,rate=1/s,cost=0,burst=-1":   {`cost is "0", want a whole number from 1 to 1000000`, `burst is "-1"`, "go together"},
		"plan=a,rate=1/s,limit=NaN/s":       {"out of range", "go together"},
		"plan=a,plan=b,rate=1/s":            {"plan is given twice"},
		"plan=a,rate=1/s,path=v1":           {`path "v1"`},
		"plan=a,rate=1/s,path=/v1#x":        {`path "/v1#x"`},
		"plan=a,rate=1/s,path=/%zz":         {`path "/%zz"`},
		"plan=a,rate=1/s,method=GE T":       {`method "GE T"`},
		"plan=a,rate=1/s,speed=3":           {`field "speed" is none of`},
		"plan=a,rate=1/s,key=a\x00b":        {`key "a\x00b" cannot stand in a header`},
		"plan=a,rate=1/s,burst=1e9,limit=3": {`burst is "1e9"`, "want a number and a unit"},
	} {
		var s Stream
		err := s.UnmarshalText([]byte(text))
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want it to say %s", text, err, want)
			}
		}
	}
}

// Every fault of a run is named with its flag, value and range, all at once.
func TestConfigFaultsAreNamed(t *testing.T) {
	cfg := config(t, "http://127.0.0.1:1", "plan=a,rate=60000/s,limit=1/s,burst=1", "plan=a,rate=60000/s,limit=2/s,burst=1")
	cfg.Duration, cfg.Timeout = 2*time.Hour, 0
	cfg.Keys, cfg.Workers, cfg.Connections = 0, 5000, 0
	cfg.HotShare, cfg.Exponent, cfg.KeyHeader = 2, 1, "a b"
	cfg.Distribution, cfg.Arrivals = "cold", "never"
	err := cfg.validate()
	for _, want := range []string{
		"--duration is 2h0m0s, want 1ms to 1h0m0s", "--timeout is 0s", "--keys is 0, want 1 to 1000000",
		"--workers is 5000", "--connections is 0", "--hot-share is 2", "--exponent is 1,", `--key-header "a b"`,
		`--distribution is "cold", want one of hot, uniform, zipf`, `--arrivals is "never"`,
		"one plan has one limit", "all rates together are 120000/s, want at most 100000/s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %s", err, want)
		}
	}
}

// Load goes to this machine unless the caller says otherwise.
func TestRemoteTargetIsRefused(t *testing.T) {
	for target, local := range map[string]bool{
		"http://127.0.0.1:80": true, "http://127.9.9.9": true, "http://[::1]:8080": true,
		"http://localhost:8080": true, "http://[::ffff:127.0.0.1]:80": true,
		"http://10.0.0.1:80": false, "http://example.com": false, "http://127.0.0.1.example.com": false,
		"http://localhost.example.com": false, "http://0.0.0.0:80": false, "http://[::]:80": false,
	} {
		cfg := config(t, target, "plan=a,rate=1/s")
		if err := cfg.validate(); (err == nil) != local {
			t.Errorf("%s: error %v, want one: %v", target, err, !local)
		}
		cfg.AllowRemote = true
		if err := cfg.validate(); err != nil {
			t.Errorf("%s with --allow-remote: %v", target, err)
		}
	}
	for address, local := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "192.0.2.1:80": false, "x": false} {
		if err := refuseRemote("tcp", address, nil); (err == nil) != local {
			t.Errorf("dialling %s: error %v, want one: %v", address, err, !local)
		}
	}
}

// The command reports as text and as JSON, shows progress, and exits with 0.
func TestCommandReports(t *testing.T) {
	var asked atomic.Int64
	target := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/labels" && r.Header.Get("Account") == "acme" && r.Method == http.MethodPut {
			asked.Add(1)
		}
	})
	file := filepath.Join(t.TempDir(), "report.json")
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), []string{"--target", target, "--duration=1200ms", "--json", file, "--key-header=account",
		"--stream", "plan=free,key=acme,rate=50/s,path=/v1/labels,method=PUT,limit=50/s,burst=5"}, &stdout, &stderr)
	if code != 0 || asked.Load() != 60 {
		t.Fatalf("exit code %d, the server saw %d requests as asked for, want 0 and 60: %s", code, asked.Load(), &stderr)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(text, &report); err != nil || report.Streams[0].Admitted != 60 {
		t.Errorf("report.json: %v, %s", err, text)
	}
	if !strings.Contains(stdout.String(), "50/s burst 5") {
		t.Errorf("the text does not name the limit:\n%s", &stdout)
	}
	if !strings.Contains(stderr.String(), "free /v1/labels: sent ") {
		t.Errorf("no line of progress in a run of over a second: %q", &stderr)
	}
}

// A wrong flag sends nothing and exits with 2; help exits with 0.
func TestWrongFlagsSendNothing(t *testing.T) {
	target := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for name, args := range map[string][]string{
		"no stream":    {"--target", target},
		"bad stream":   {"--target", target, "--stream", "plan=a"},
		"bad flag":     {"--target", target, "--stream", "plan=a,rate=1/s", "--speed=3"},
		"out of range": {"--target", target, "--stream", "plan=a,rate=1/s", "--keys=0"},
		"remote":       {"--target", "http://192.0.2.1", "--stream", "plan=a,rate=1/s"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Main(t.Context(), args, &stdout, &stderr); code != 2 || stderr.Len() == 0 {
			t.Errorf("%s: exit code %d, %q, want 2 and a reason", name, code, &stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	if code := Main(t.Context(), []string{"--help"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "--allow-remote") {
		t.Errorf("--help: exit code %d, %s%s", code, &stdout, &stderr)
	}
}
