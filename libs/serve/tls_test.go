package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/serve"
)

// pair makes a certificate of 127.0.0.1 and its key.
func pair(t *testing.T, name string) (certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// write replaces a file as renewals do.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestRenewedCertificateIsServed: new connections see it within a second, by TLS
// 1.2 or later and with HTTP/2; a half renewed pair changes nothing.
func TestRenewedCertificateIsServed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	oldCert, oldKey := pair(t, "old")
	write(t, certFile, oldCert)
	write(t, keyFile, oldKey)
	p := newProcess(t, serve.Config{DrainTimeout: deadline})
	certificate, err := serve.OpenCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	address, err := p.ServeEndpoint(serve.Endpoint{Flag: "--listen", Address: "127.0.0.1:0", TLS: certificate.TLS(), Handler: http.HandlerFunc(answerOK)})
	if err != nil {
		t.Fatal(err)
	}
	following := make(chan struct{})
	go func() { certificate.Run(t.Context()); close(following) }()
	t.Cleanup(func() { receive(t, following, "end of following") })
	start(t, p)

	served := func() string {
		c, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		state := c.ConnectionState()
		if state.NegotiatedProtocol != "h2" {
			t.Errorf("negotiated %q", state.NegotiatedProtocol)
		}
		return state.PeerCertificates[0].Subject.CommonName
	}
	if got := served(); got != "old" {
		t.Fatalf("served %s at first", got)
	}
	newCert, newKey := pair(t, "new")
	write(t, certFile, newCert)
	if got := served(); got != "old" {
		t.Errorf("served %s with half a pair", got)
	}
	write(t, keyFile, newKey)
	poll(t, "the new certificate is served", func() bool { return served() == "new" })

	if _, err := tls.Dial("tcp", address.String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// TestUnusableCertificateIsNamed: and its key is not shown.
func TestUnusableCertificateIsNamed(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	cert, _ := pair(t, "one")
	_, key := pair(t, "other")
	write(t, certFile, cert)
	for _, c := range []struct {
		name string
		key  []byte
	}{{"no key", nil}, {"another's key", key}, {"no PEM", []byte("secret")}} {
		t.Run(c.name, func(t *testing.T) {
			if c.key != nil {
				write(t, keyFile, c.key)
			}
			_, err := serve.OpenCertificate(certFile, keyFile, slog.New(slog.DiscardHandler))
			if err == nil || !strings.Contains(err.Error(), "tls.key") || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}
