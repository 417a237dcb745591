package stack

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metrics = `# TYPE shiplane_checker_rules_revision gauge
shiplane_checker_rules_revision{domain="public-api"} 7
# TYPE shiplane_store_region_pods gauge
shiplane_store_region_pods{otel_scope_name="x"} 4
# TYPE shiplane_store_breaker_state gauge
shiplane_store_breaker_state{shard="0"} 0
shiplane_store_breaker_state{shard="5461"} 1
shiplane_store_breaker_state{shard="10922"} 2
shiplane_store_breaker_state{shard="99"} 3
`

// What a service tells of itself is read; from one that does not answer, or tells
// nonsense, nothing is made up.
func TestScrapeReadsWhatIsTold(t *testing.T) {
	said := metrics
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(said)) }))
	defer server.Close()
	revision, pods := int64(7), int64(4)
	want := PartStatus{Revision: &revision, Pods: &pods, Breakers: map[string]string{"0": "closed", "5461": "open", "10922": "probing"}}
	s := New(Config{Regions: []string{"a"}}, func(string) {})
	scraped := func(state State, admin string) PartStatus {
		p := PartStatus{State: state, Admin: admin}
		s.scrape(t.Context(), &p)
		p.State, p.Admin = "", ""
		return p
	}
	address := strings.TrimPrefix(server.URL, "http://")
	if diff := cmp.Diff(want, scraped(Running, address)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	said = "{nonsense"
	for name, got := range map[string]PartStatus{"nonsense": scraped(Running, address), "frozen": scraped(Frozen, address), "nobody": scraped(Running, "127.0.0.1:1")} {
		if diff := cmp.Diff(PartStatus{}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}

// Services get no flags from the environment of whoever starts the system.
func TestServicesGetNoFlagsFromTheEnvironment(t *testing.T) {
	t.Setenv("SHIPLANE_MODE", "off")
	t.Setenv("ANOTHER", "kept")
	got := environment()
	if !slices.Contains(got, "ANOTHER=kept") || slices.Contains(got, "SHIPLANE_MODE=off") {
		t.Errorf("got %q", got)
	}
}

// An order for what is not there names what is; one that nobody knows is refused; and
// nothing can be done to a region before it has its cluster.
func TestOrdersForNobodyAreRefused(t *testing.T) {
	s := New(Config{Regions: []string{"east", "west"}, Shards: 3}, func(string) {})
	for want, order := range map[string]Order{
		"east, west":         {Verb: Partition, Name: "north"},
		"starting":           {Verb: KillPrimary, Name: "west"},
		"dev status":         {Verb: Kill, Name: "west-gateway-1"},
		`no order "tickle"`:  {Verb: "tickle", Name: "east"},
		"nothing was frozen": {Verb: Thaw},
	} {
		said, err := s.Do(context.Background(), order)
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, want) {
			t.Errorf("%+v: got %q, want %q in it", order, said, want)
		}
	}
}
