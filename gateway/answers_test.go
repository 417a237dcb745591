package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestFreeRequestsAreNotCharged: HEAD, OPTIONS and preflights show what is left and
// take nothing, unless they are asked to or say that they are another method.
func TestFreeRequestsAreNotCharged(t *testing.T) {
	left := func(a answer) string {
		_, after, _ := strings.Cut(a.Header.Get("RateLimit"), ";r=")
		left, _, _ := strings.Cut(after, ";")
		return left
	}
	preflight := []string{"Origin", "https://shop.example", "Access-Control-Request-Method", "POST"}
	g := start(t, echoes)
	for range 20 {
		for _, a := range []answer{g.do("HEAD", "/v1/items/1", ""), g.do("OPTIONS", "/v1/items/1", ""), g.do("OPTIONS", "/v1/bulk", "", preflight...)} {
			if a.StatusCode != 200 || left(a) != "" && left(a) != "15" {
				t.Fatalf("%s: %s, %s left", a.Request.Method, a.Status, left(a))
			}
		}
	}
	if a := g.do("GET", "/v1/items/1", ""); left(a) != "14" {
		t.Errorf("after free requests a first GET leaves %s of 15", left(a))
	}
	if a := g.do("HEAD", "/v1/items/1", "", "X-HTTP-Method-Override", "POST"); left(a) != "13" {
		t.Errorf("a HEAD that is a POST leaves %s", left(a))
	}

	asked := start(t, echoes, "--charge=HEAD, options,preflight")
	asked.do("HEAD", "/v1/items/1", "")
	asked.do("OPTIONS", "/v1/items/1", "")
	if a := asked.do("OPTIONS", "/v1/items/1", "", preflight...); left(a) != "12" {
		t.Errorf("charged when asked: %s left of 15", left(a))
	}

	// A browser sends no credentials with a preflight.
	strict := start(t, echoes, "--require-key")
	strict.do("OPTIONS", "/v1/items/1", "", preflight...).want(t, 200, "")
	strict.do("OPTIONS", "/v1/items/1", "").want(t, 401, "")
	strict.do("OPTIONS", "/v1/items/1", "", append([]string{"X-Api-Key", "nobody"}, preflight...)...).want(t, 401, "")
	// A login's preflight has no body to name a user.
	g.do("OPTIONS", "/v1/login", "", preflight...).want(t, 200, "")
}

// TestBrowsersCanReadLimits: scripts of the origins that may read refusals, and the
// fields of what the upstream lets them read; of others nothing.
func TestBrowsersCanReadLimits(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Expose-Headers", "X-Total")
		}
		echo(w, r)
	})
	g := start(t, upstream, "--cors-origins=https://shop.example,https://admin.example")
	open := func(a answer) string {
		return fmt.Sprint(a.Header["Access-Control-Allow-Origin"], a.Header["Access-Control-Allow-Credentials"], a.Header["Access-Control-Expose-Headers"])
	}
	get := func(origin string) answer {
		return g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1", "Origin", origin)
	}
	if got, want := open(get("https://shop.example").want(t, 200, "")), "[https://shop.example] [] [X-Total Ratelimit-Policy, Ratelimit]"; got != want {
		t.Errorf("allowed: %s, want %s", got, want)
	}
	if got := open(g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")); got != "[] [] []" {
		t.Errorf("without an origin: %s", got)
	}
	for range 10 {
		get("https://shop.example").want(t, 200, "")
	}
	denied := get("https://shop.example").want(t, 429, "small-global")
	if got, want := open(denied), "[https://shop.example] [true] [Ratelimit-Policy, Ratelimit, Retry-After]"; got != want {
		t.Errorf("denied: %s, want %s", got, want)
	}
	if got := open(get("https://evil.example").want(t, 429, "")); got != "[] [] []" {
		t.Errorf("another origin: %s", got)
	}
	unknown := g.do("GET", "/", "", "X-Api-Key", "nobody", "Origin", "https://shop.example").want(t, 401, "")
	if got := unknown.Header.Get("Access-Control-Allow-Origin"); got != "https://shop.example" {
		t.Errorf("a 401 can be read by %q", got)
	}
	all := start(t, echoes, "--cors-origins=*")
	if got := open(all.do("GET", "/", "", "X-Api-Key", "nobody", "Origin", "https://any.example")); !strings.HasPrefix(got, "[*] []") {
		t.Errorf("for all: %s", got)
	}
}

// TestDeniedBodyIsTheOperators: made from the template for a 429, and for nothing else.
func TestDeniedBodyIsTheOperators(t *testing.T) {
	path := filepath.Join(t.TempDir(), "denied.json")
	replace(t, path, `{"error": {{json .Code}}, "rules": {{json .Rules}}, "message": {{json .Detail}}, "retry": {{.RetryAfter}}}`)
	g := start(t, echoes, "--denied-body", path, "--denied-body-type=application/vnd.shop+json")
	g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 200, "")
	a := g.do("POST", "/v1/bulk", "", "X-Api-Key", "small-1").want(t, 429,
		`{"error": "rate_limited", "rules": ["small-global"], "message": "Limit \"small-global\" (1/d burst 12) has 2 left and the request costs 10. Retry after 691200 s.", "retry": 691200}`)
	if got := a.Header.Get("Content-Type"); got != "application/vnd.shop+json" || a.Header.Get("Retry-After") != "691200" {
		t.Errorf("Content-Type %s, Retry-After %s", got, a.Header.Get("Retry-After"))
	}
	g.do("GET", "/", "", "X-Api-Key", "nobody").want(t, 401, `"code":"unknown_key"`)
}

// TestCallsAreRefusedInTheirProtocol: a call passes with its trailers; a refused one is a
// status that clients know, with the time to wait; by gRPC in headers alone.
func TestCallsAreRefusedInTheirProtocol(t *testing.T) {
	const procedure = "/shop.v1.Orders/List"
	type message = wrapperspb.StringValue
	server := httptest.NewUnstartedServer(connect.NewUnaryHandler(procedure, func(_ context.Context, r *connect.Request[message]) (*connect.Response[message], error) {
		return connect.NewResponse(wrapperspb.String("to " + r.Msg.GetValue())), nil
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	g := startBefore(t, strings.Replace(server.URL, "http:", "h2c:", 1))
	by := &http.Client{Transport: transports(t)["HTTP/2.0"], Timeout: deadline}
	replace(t, g.keys, testKeys("small-1", "small-2", "small-3", "small-4", "big-1"))
	poll(t, "the keys are loaded", func() bool { return g.metric("shiplane_gateway_keys_loaded") == "5" })
	for name, protocol := range map[string]connect.ClientOption{
		"gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(), "Connect": connect.WithClientOptions(), "Connect's JSON": connect.WithProtoJSON(),
	} {
		key := map[string]string{"gRPC": "small-1", "gRPC-Web": "small-2", "Connect": "small-3", "Connect's JSON": "small-4"}[name]
		client := connect.NewClient[message, message](by, g.api+procedure, protocol)
		call := func(key string) (*connect.Response[message], error) {
			r := connect.NewRequest(wrapperspb.String(name))
			r.Header().Set("X-Api-Key", key)
			return client.CallUnary(t.Context(), r)
		}
		for range 12 {
			response, err := call(key)
			if err != nil || response.Msg.GetValue() != "to "+name || response.Header().Get("RateLimit") == "" {
				t.Fatalf("%s: %v, %v", name, response, err)
			}
		}
		_, err := call(key)
		refused := (*connect.Error)(nil)
		if !errors.As(err, &refused) || refused.Code() != connect.CodeResourceExhausted || !strings.Contains(refused.Message(), `Limit "small-global"`) {
			t.Fatalf("%s: refused with %v", name, err)
		}
		var wait time.Duration
		for _, detail := range refused.Details() {
			if value, err := detail.Value(); err != nil {
				t.Error(err)
			} else if retry, ok := value.(*errdetails.RetryInfo); ok {
				wait = retry.GetRetryDelay().AsDuration()
			}
		}
		if wait != 24*time.Hour {
			t.Errorf("%s: told to wait %v", name, wait)
		}
		if _, err := call("nobody"); connect.CodeOf(err) != connect.CodeUnauthenticated {
			t.Errorf("%s: an unknown key is refused with %v", name, err)
		}
	}
	r, err := http.NewRequest(http.MethodPost, g.api+procedure, strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc+proto")
	r.Header.Set("X-Api-Key", "small-1")
	a := send(t, by.Transport, r).want(t, 200, "")
	if a.Header.Get("Grpc-Status") != "8" || a.Header.Get("Content-Type") != "application/grpc+proto" || a.body != "" || len(a.Trailer) > 0 {
		t.Errorf("refused with header %v, trailer %v, body %q", a.Header, a.Trailer, a.body)
	}
}
