package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Files of a certificate, in the folder of the servers: the authority's, the
// server's, and the server's key.
const (
	CAFile   = "ca.pem"
	CertFile = "server.pem"
	KeyFile  = "server.key"
)

// certificateLife is long enough for a system that is left running over a weekend.
const certificateLife = 30 * 24 * time.Hour

// Certify makes an authority and one certificate for servers at address, an IP
// address, writes them into dir (CAFile, CertFile, KeyFile; PEM, mode 0600) and
// returns what a client needs to trust them.
func Certify(dir, address string) (*tls.Config, error) {
	authority := template("Shiplane testenv CA")
	authority.IsCA = true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	server := template("Shiplane testenv server")
	server.IPAddresses = []net.IP{net.ParseIP(address)}
	server.KeyUsage = x509.KeyUsageDigitalSignature
	// Nodes of a cluster are each other's clients.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, authority, serverKey.Public(), authorityKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		writePEM(dir, CAFile, "CERTIFICATE", authorityDER),
		writePEM(dir, CertFile, "CERTIFICATE", serverDER),
		writePEM(dir, KeyFile, "PRIVATE KEY", keyDER))
	if err != nil {
		return nil, err
	}
	trusted, err := x509.ParseCertificate(authorityDER)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(trusted)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

func template(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-time.Hour), // clocks differ
		NotAfter:              now.Add(certificateLife),
		BasicConstraintsValid: true,
	}
}

func writePEM(dir, name, kind string, der []byte) error {
	block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(filepath.Join(dir, name), block, 0o600)
}
