package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestUpstreamsAreAskedForTheirHealth: on the path that the flag names, each of
// them, by the gateway itself; what its rules count is callers' requests alone.
func TestUpstreamsAreAskedForTheirHealth(t *testing.T) {
	asked := make(chan string, 100)
	upstream := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- name + r.URL.Path }))
		t.Cleanup(s.Close)
		return s.URL
	}
	g := startBefore(t, upstream("one")+","+upstream("other")+"/base", "--upstream-health=/healthy")
	got := map[string]bool{receive(t, asked, "question"): true, receive(t, asked, "question"): true}
	if !got["one/healthy"] || !got["other/healthy"] {
		t.Errorf("asked were %v", got)
	}
	g.wantMetrics(`shiplane_gateway_requests_total{decided_by="store",verdict="allowed"}`, "")
}

// TestServingUpstreamsAreTold: one that refuses connections is told from the others.
func TestServingUpstreamsAreTold(t *testing.T) {
	up := httptest.NewServer(echoes)
	t.Cleanup(up.Close)
	gone := httptest.NewServer(echoes)
	gone.Close()
	g := startBefore(t, up.URL+","+gone.URL)
	serving := func(url string) string { return `shiplane_gateway_upstream_serving{upstream="` + url + `"}` }
	g.wantMetrics(serving(up.URL), "1", serving(gone.URL), "1")
	for range 2 { // it has its turn in one of them
		g.do("GET", "/v1/items/1", "", "X-Api-Key", "big-1").want(t, 200, "")
	}
	g.wantMetrics(serving(up.URL), "1", serving(gone.URL), "0")
}
