package checker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

const (
	callerToken = "caller-token-of-a-test-1"
	podToken    = "pod-token-of-a-test-00001"
)

func acquire() *checkv1.AcquireRequest {
	return &checkv1.AcquireRequest{Asks: []*checkv1.Ask{{
		Domain: "public-api", Kind: checkv1.SubjectKind_SUBJECT_KIND_ACCOUNT, Id: []byte("acct"),
		Entries: []*checkv1.AskEntry{{Rule: "growth-global", Tag: 7, Counter: checkv1.Counter_COUNTER_TOKEN_BUCKET, Rate: 1, Size: 10, Need: 1, Want: 4}},
	}}}
}

// attempt makes a call with a token, "" for none.
type attempt struct {
	name string
	call func(ctx context.Context, token string) error
}

// attempts are calls of everything that needs a token, but for Acquire.
func (s *running) attempts() []attempt {
	conn := s.native()
	client := checkv1.NewCheckServiceClient(http.DefaultClient, s.api)
	connected := func(ctx context.Context, token string) context.Context {
		ctx, info := connect.NewClientContext(ctx)
		info.RequestHeader().Set("Authorization", "Bearer "+token)
		return ctx
	}
	return []attempt{
		{"rest", func(_ context.Context, token string) error {
			switch a := s.check(seedRequest, "Authorization", "bearer "+token); {
			case a.StatusCode == http.StatusOK:
				return nil
			case a.StatusCode == http.StatusUnauthorized && a.Header.Get("WWW-Authenticate") == "Bearer" && strings.Contains(a.body, `"code":"unauthorized"`):
				return connect.NewError(connect.CodeUnauthenticated, nil)
			default:
				return connect.NewError(connect.CodeInternal, nil)
			}
		}},
		{"connect", func(ctx context.Context, token string) error {
			_, err := client.Check(connected(ctx, token), checkOf("growth-global", "acct"))
			return err
		}},
		{"native", func(ctx context.Context, token string) error {
			return conn.Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), checkv1.CheckServiceCheckProcedure, checkOf("growth-global", "acct"), &checkv1.CheckResponse{})
		}},
		{"reflection", func(ctx context.Context, token string) error {
			stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token))
			if err != nil {
				return err
			}
			_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}) // Recv tells why
			_, err = stream.Recv()
			return err
		}},
	}
}

// With token files nobody is served without a token but who asks for the health, by
// no protocol, and only a pod may Acquire. No token is in the log.
func TestTokensAreNeeded(t *testing.T) {
	s := start(t, "--token-file", file(t, "tokens", "# of the shop\n"+callerToken+"\n\nanother-token-of-a-test\n"), "--pod-token-file", file(t, "pods", podToken))
	for _, a := range s.attempts() {
		for _, wrong := range []string{"", "wrong-token-of-a-test-001", callerToken + "x", callerToken[:len(callerToken)-1]} {
			wantError(t, a.call(t.Context(), wrong), codes.Unauthenticated, "")
		}
		for _, right := range []string{callerToken, "another-token-of-a-test", podToken} {
			if err := a.call(t.Context(), right); err != nil {
				t.Errorf("%s with a good token: %v", a.name, err)
			}
		}
	}
	conn := s.native()
	for token, want := range map[string]codes.Code{"": codes.Unauthenticated, callerToken: codes.PermissionDenied, podToken: codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		got := &checkv1.AcquireResponse{}
		err := conn.Invoke(ctx, checkv1.CheckServiceAcquireProcedure, acquire(), got)
		if want != codes.OK {
			wantError(t, err, want, "")
		} else if err != nil || got.GetResults()[0].GetOutcomes()[0].GetGranted() != 4 {
			t.Errorf("a pod's Acquire: %v, %v", got, err)
		}
		a := s.do(http.MethodPost, s.api+checkv1.CheckServiceAcquireProcedure, `{}`, "Content-Type", "application/json", "Authorization", "Bearer "+token)
		if status := map[codes.Code]int{codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.OK: 400}[want]; a.StatusCode != status {
			t.Errorf("Acquire by Connect with %q: %s", token, a.Status)
		}
	}
	if _, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	s.do(http.MethodPost, s.api+"/grpc.health.v1.Health/Check", `{}`, "Content-Type", "application/json").want(t, http.StatusOK, "SERVING")
	s.do(http.MethodGet, s.api+"/", "").want(t, http.StatusUnauthorized, "unauthorized")
	for _, secret := range []string{callerToken, podToken, "wrong-token"} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	s.do(http.MethodGet, s.admin+"/metrics", "").want(t, http.StatusOK, `shiplane_checker_requests_total{decided_by="identity",verdict="unauthorized"}`)
}

// A token is replaced while the checker runs; a file that becomes unreadable takes
// nobody's access away.
func TestTokensAreFollowed(t *testing.T) {
	path := file(t, "tokens", callerToken)
	s := start(t, "--token-file", path)
	ask := func(token string) int { return s.check(seedRequest, "Authorization", "Bearer "+token).StatusCode }
	write(t, path, "the-new-token-of-a-test\n")
	poll(t, "the new token holds", func() bool { return ask("the-new-token-of-a-test") == http.StatusOK })
	if got := ask(callerToken); got != http.StatusUnauthorized {
		t.Errorf("the token that was taken away: %d", got)
	}
	write(t, path, "short\n")
	poll(t, "the fault is told", func() bool { return strings.Contains(s.log.String(), "the tokens stay as they were") })
	if got := ask("the-new-token-of-a-test"); got != http.StatusOK {
		t.Errorf("a fault in the file takes a token away: %d", got)
	}
	if ask("short") != http.StatusUnauthorized || strings.Contains(s.log.String(), "short") {
		t.Errorf("a token of a faulty file, or its log\n%s", s.log)
	}
}

// On loopback without tokens and certificates whoever is on this machine may do all,
// and the checker says so.
func TestWithoutTokensThisMachineIsTrusted(t *testing.T) {
	s := start(t)
	if _, err := checkv1.NewCheckServiceClient(http.DefaultClient, s.api).Acquire(t.Context(), acquire()); err != nil {
		t.Errorf("Acquire: %v", err)
	}
	if !strings.Contains(s.log.String(), "callers need no token") {
		t.Error("the log does not say that callers need no token")
	}
}

// A browser's script of an allowed origin may call, and read errors; no other may.
func TestCORS(t *testing.T) {
	s := start(t, "--allowed-origins=https://shop.example", "--token-file", file(t, "tokens", callerToken))
	preflight := func(origin string) http.Header {
		return s.do(http.MethodOptions, s.api+checkv1.CheckServiceCheckProcedure, "", "Origin", origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,connect-protocol-version,content-type").Header
	}
	if h := preflight("https://shop.example"); h.Get("Access-Control-Allow-Origin") != "https://shop.example" || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("preflight of the shop: %v", h)
	}
	if h := preflight("https://evil.example"); h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight of another: %v", h)
	}
	refused := s.check(seedRequest, "Origin", "https://shop.example")
	refused.want(t, http.StatusUnauthorized, "")
	if refused.Header.Get("Access-Control-Allow-Origin") != "https://shop.example" {
		t.Errorf("a script cannot read why it is refused: %v", refused.Header)
	}
}

// certified is a certificate that signs itself, for 127.0.0.1 and for clients.
type certified struct {
	cert, key string // paths
	pair      tls.Certificate
	pool      *x509.CertPool
}

func certify(t *testing.T, name string) certified {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	c := certified{cert: file(t, name+".pem", string(certPEM)), key: file(t, name+".key", string(keyPEM)), pool: x509.NewCertPool()}
	c.pool.AppendCertsFromPEM(certPEM)
	if c.pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return c
}

// With --client-ca both addresses serve who has a certificate, and nobody else; a
// certificate is no pod's token.
func TestCertificatesAreNeeded(t *testing.T) {
	server, client := certify(t, "server"), certify(t, "client")
	s := start(t, "--tls-cert", server.cert, "--tls-key", server.key, "--client-ca", client.cert)
	for _, c := range []struct {
		name string
		with []tls.Certificate
		ok   bool
	}{{"a certificate", []tls.Certificate{client.pair}, true}, {"none", nil, false}, {"another's", []tls.Certificate{server.pair}, false}} {
		t.Run(c.name, func(t *testing.T) {
			config := &tls.Config{RootCAs: server.pool, Certificates: c.with, MinVersion: tls.VersionTLS12}
			transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			connected := checkv1.NewCheckServiceClient(&http.Client{Transport: transport}, "https://"+s.apiAt)
			conn, err := grpc.NewClient("passthrough:///"+s.grpcAt, grpc.WithTransportCredentials(credentials.NewTLS(config)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, byConnect := connected.Check(t.Context(), checkOf("growth-global", "acct"))
			_, byNative := nativeCaller(conn)(t.Context(), "growth-global", "acct")
			if (byConnect == nil) != c.ok || (byNative == nil) != c.ok {
				t.Errorf("by Connect %v, by gRPC %v", byConnect, byNative)
			}
			if c.ok {
				_, err := connected.Acquire(t.Context(), acquire())
				wantError(t, err, codes.PermissionDenied, "")
			}
		})
	}
}
