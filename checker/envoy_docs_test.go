package checker

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3" // in the example
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // in the example
	managerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3" // in the example
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/goccy/go-yaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// envoyExample is what docs/envoy.md shows.
type envoyExample struct {
	t         *testing.T
	document  string
	rules     string
	bootstrap *bootstrapv3.Bootstrap
	manager   *managerv3.HttpConnectionManager
	filter    *filterv3.RateLimit
}

// readExample reads the document's example, strictly: each field of Envoy's has to be
// one of Envoy's types, and of a value that these permit.
func readExample(t *testing.T) *envoyExample {
	t.Helper()
	text, err := os.ReadFile("../docs/envoy.md")
	if err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of YAML: want the rules and Envoy's configuration", len(blocks))
	}
	e := &envoyExample{t: t, document: string(text), rules: blocks[0][1], bootstrap: &bootstrapv3.Bootstrap{}, manager: &managerv3.HttpConnectionManager{}, filter: &filterv3.RateLimit{}}
	asJSON, err := yaml.YAMLToJSON([]byte(blocks[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(asJSON, e.bootstrap); err != nil {
		t.Fatal(err)
	}
	if err := e.bootstrap.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	e.unpack(e.bootstrap.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), e.manager)
	for _, filter := range e.manager.GetHttpFilters() {
		if filter.GetName() == "envoy.filters.http.ratelimit" {
			e.unpack(filter.GetTypedConfig(), e.filter)
		}
	}
	return e
}

func (e *envoyExample) unpack(from *anypb.Any, to interface {
	proto.Message
	ValidateAll() error
},
) {
	e.t.Helper()
	if err := from.UnmarshalTo(to); err != nil {
		e.t.Fatal(err)
	}
	if err := to.ValidateAll(); err != nil {
		e.t.Error(err)
	}
}

// request is what an Envoy knows of one.
type request struct {
	address string
	headers map[string]string
	token   map[string]string // the claims of one that holds
}

// ask does with the example's actions what Envoy does with them.
func (e *envoyExample) ask(q request) *pb.RateLimitRequest {
	e.t.Helper()
	made := &pb.RateLimitRequest{Domain: e.filter.GetDomain()}
	for _, limit := range e.manager.GetRouteConfig().GetVirtualHosts()[0].GetRateLimits() {
		d := &ratelimitv3.RateLimitDescriptor{}
		for _, action := range limit.GetActions() {
			key, value := e.act(action, q)
			if value != "" {
				d.Entries = append(d.Entries, &ratelimitv3.RateLimitDescriptor_Entry{Key: key, Value: value})
			}
		}
		made.Descriptors = append(made.Descriptors, d)
	}
	return made
}

func (e *envoyExample) act(action *routev3.RateLimit_Action, q request) (key, value string) {
	e.t.Helper()
	switch a := action.GetActionSpecifier().(type) {
	case *routev3.RateLimit_Action_RemoteAddress_:
		return "remote_address", q.address
	case *routev3.RateLimit_Action_RequestHeaders_:
		return a.RequestHeaders.GetDescriptorKey(), q.headers[a.RequestHeaders.GetHeaderName()]
	case *routev3.RateLimit_Action_Metadata:
		if !a.Metadata.GetSkipIfAbsent() {
			e.t.Errorf("without %s there would be no descriptor", a.Metadata.GetDescriptorKey())
		}
		return a.Metadata.GetDescriptorKey(), q.token[a.Metadata.GetMetadataKey().GetPath()[1].GetKey()]
	}
	e.t.Fatalf("the example has an action that this test does not know: %v", action)
	return "", ""
}

// The document's configuration is one for Envoy, and with the document's rules it
// limits requests as it says.
func TestDocumentedEnvoyIsLimited(t *testing.T) {
	example := readExample(t)
	e := start(t, "--rules", file(t, "rules.yaml", example.rules)).envoy()
	exports := map[string]string{":path": "/v1/exports?all=1", ":method": "POST"}
	labels := map[string]string{":path": "/v1/labels", ":method": "GET"}
	for _, c := range []struct {
		request request
		want    string
	}{
		{request{"192.0.2.1", labels, map[string]string{"sub": "acct_1", "plan": "free"}}, "OK: OK free-day 1000 per DAY left 999"},
		{request{"192.0.2.1", labels, map[string]string{"sub": "acct_2", "plan": "growth"}}, "OK: OK growth-global 200 per 2 SECOND left 199"},
		{request{"192.0.2.1", exports, map[string]string{"sub": "acct_3", "plan": "growth"}}, "OK: OK exports-route 10 per 10 SECOND left 5"},
		{request{"192.0.2.1", labels, nil}, "OK: OK anonymous-ip 20 per 4 SECOND left 19"},
	} {
		e.want(textOf(e.ask(example.ask(c.request))), c.want)
	}
}

// The document's Envoy finds the checker as it is: by HTTP/2, with a token, and with
// the health of a service that there is.
func TestDocumentedEnvoyCallsAsItMust(t *testing.T) {
	example := readExample(t)
	service := example.filter.GetRateLimitService().GetGrpcService()
	clusters := example.bootstrap.GetStaticResources().GetClusters()
	at := slices.IndexFunc(clusters, func(c *clusterv3.Cluster) bool { return c.GetName() == service.GetEnvoyGrpc().GetClusterName() })
	if at < 0 {
		t.Fatalf("there is no cluster of the service: %v", service)
	}
	protocol := &httpv3.HttpProtocolOptions{}
	example.unpack(clusters[at].GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], protocol)
	if protocol.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
		t.Errorf("the cluster speaks %v", protocol)
	}
	if name := clusters[at].GetHealthChecks()[0].GetGrpcHealthCheck().GetServiceName(); name != pb.RateLimitService_ServiceDesc.ServiceName {
		t.Errorf("the health of %s", name)
	}
	sent := service.GetInitialMetadata()[0]
	token, ok := strings.CutPrefix(sent.GetValue(), "Bearer ")
	if !ok || sent.GetKey() != "authorization" {
		t.Fatalf("sends %v", sent)
	}
	s := start(t, "--token-file", file(t, "tokens", token+"\n"))
	s.check(seedRequest, sent.GetKey(), sent.GetValue()).want(t, http.StatusOK, "")
}

// The document explains every key that means something, and every outcome.
func TestDocumentNamesEveryKeyOfDescriptors(t *testing.T) {
	example := readExample(t)
	for _, name := range []string{
		"account", "api_key", "remote_address", "masked_remote_address", "ip", "user", "plan", "route", "path", "method", "host", "rule",
		"matched", "no_rule", "no_identity", "unknown_domain", "unknown_key", "unknown_rule", "unknown_route", "wide_network", "unreadable", "invalid",
	} {
		if !regexp.MustCompile("(?m)^\\|[^|]*`" + name + "`[^|]*\\|").MatchString(example.document) {
			t.Errorf("docs/envoy.md does not explain %s", name)
		}
	}
}
