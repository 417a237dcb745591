package client

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"
)

// vectors are what testdata/pacing.json says to the clients of both languages.
type vectors struct {
	Scenarios []struct {
		Name  string
		Steps []struct {
			At     int64
			Take   *int64
			Lost   bool
			Answer *struct {
				Sent    int64
				Status  int
				Headers map[string]string
			}
			Wait   int64
			Chance float64
		}
	}
}

// The pacer does what the scenarios say, which the TypeScript client is held to, too.
func TestPacerDoesWhatTheScenariosSay(t *testing.T) {
	text, err := os.ReadFile("testdata/pacing.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil || len(v.Scenarios) == 0 {
		t.Fatalf("%d scenarios, %v", len(v.Scenarios), err)
	}
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int64) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	for _, s := range v.Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			p := newPacer()
			for i, step := range s.Steps {
				switch {
				case step.Lost:
					p.failed()
				case step.Take != nil:
					if got := p.take(at(step.At)).Milliseconds(); got != *step.Take {
						t.Errorf("step %d: a request waits %d ms, want %d", i, got, *step.Take)
					}
				default:
					h := http.Header{}
					for name, value := range step.Answer.Headers {
						h.Set(name, value)
					}
					if got := p.learn(step.Answer.Status, h, at(step.Answer.Sent), at(step.At), step.Chance).Milliseconds(); got != step.Wait {
						t.Errorf("step %d: an answer tells %d ms, want %d", i, got, step.Wait)
					}
				}
			}
		})
	}
}
