package loadgen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected reports in testdata")

// What reads the report finds the same names, units and layout in every
// version: a change of testdata/report.json is a change of the schema.
func TestReportsKeepTheirShape(t *testing.T) {
	report := &Report{
		Schema: Schema, Target: "http://127.0.0.1:8080", Arrivals: "poisson", Distribution: "zipf", Keys: 1000, Seed: 7,
		DurationS: 10, ElapsedS: 10.25, Interrupted: true,
		Streams: []StreamReport{{
			Plan: "free", Method: "GET", Path: "/v1/labels", Cost: 1,
			Sent: 300, Admitted: 119, Refused: 178, Unavailable: 1, Errors: 2, FirstError: "connection refused",
			Statuses:  map[int]int64{200: 119, 429: 178, 503: 1, 500: 1},
			AskedPerS: 30, AchievedPerS: 29.5, Unsent: 3, Behind: true,
			Latency:   Quantiles{P50: 0.5, P90: 1, P99: 2.5, P999: 20, Max: 31.25},
			SendDelay: Quantiles{P50: 0.0625, P90: 0.125, P99: 12, P999: 18, Max: 20},
		}},
		Plans: []PlanReport{
			{Plan: "free", Judged: true, RatePerS: 10, Burst: 20, Keys: 1, Seconds: 9.5, Tokens: 116, Bound: 115, Least: 114, OverLimitKeys: 1, OverLimit: true},
			{Plan: "growth", Keys: 3, Seconds: 9.5, Tokens: 500},
		},
	}
	var text, json bytes.Buffer
	if err := report.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteJSON(&json); err != nil {
		t.Fatal(err)
	}
	compare(t, "report.txt", text.Bytes())
	compare(t, "report.json", json.Bytes())
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -rewrite accepts it):\n%s", name, diff)
	}
}
