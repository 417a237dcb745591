package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/shiplane/limits/libs/filewatch"
	"github.com/shiplane/limits/libs/serve"
)

// CertFlags say how a service proves who it is.
type CertFlags struct {
	TLSCert string `name:"tls-cert" placeholder:"FILE" help:"PEM certificate chain to serve --listen with, TLS 1.2 or later; followed while running. Needs --tls-key."`
	TLSKey  string `name:"tls-key" placeholder:"FILE" help:"PEM key of --tls-cert, followed while running."`
}

// Check notes flags that lack their companions.
func (f *CertFlags) Check(faults *Faults) {
	if (f.TLSCert == "") != (f.TLSKey == "") {
		faults.Add("tls-cert", f.TLSCert, "must be given together with --tls-key")
	}
}

// Open reads the files, and follows the certificate while the process runs. It
// returns nil where the service is to be served without TLS.
func (f *CertFlags) Open(process *serve.Process, log *slog.Logger) (*tls.Config, error) {
	if f.TLSCert == "" {
		return nil, nil
	}
	certificate, err := serve.OpenCertificate(f.TLSCert, f.TLSKey, log)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	process.Go("certificate", func(ctx context.Context) error { certificate.Run(ctx); return nil })
	return certificate.TLS(), nil
}

// TLSFlags say how a service proves who it is, and who may connect to it.
type TLSFlags struct {
	CertFlags `embed:""`

	ClientCA string `name:"client-ca" placeholder:"FILE" help:"PEM certificates: only callers with a certificate that one of these has signed are served. Needs --tls-cert (default: callers need no certificate)."`
}

// Check notes flags that lack their companions.
func (f *TLSFlags) Check(faults *Faults) {
	f.CertFlags.Check(faults)
	if f.ClientCA != "" && f.TLSCert == "" {
		faults.Add("client-ca", f.ClientCA, "needs --tls-cert and --tls-key")
	}
}

// Open is CertFlags.Open, where callers may have to show a certificate.
func (f *TLSFlags) Open(process *serve.Process, log *slog.Logger) (*tls.Config, error) {
	config, err := f.CertFlags.Open(process, log)
	if err != nil || config == nil || f.ClientCA == "" {
		return config, err
	}
	if config.ClientCAs, err = CertPool(f.ClientCA); err != nil {
		return nil, fmt.Errorf("--client-ca: %w", err)
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config, nil
}

// ClientTLS is whom a process believes that it calls by https://, and how it proves
// who it is itself.
type ClientTLS struct {
	Flags         string // how their flags begin, as in "rules"
	CA, Cert, Key string // paths; "" for none
}

// Check notes flags that lack their companions.
func (c *ClientTLS) Check(faults *Faults) {
	if (c.Cert == "") != (c.Key == "") {
		faults.Add(c.Flags+"-cert", c.Cert, "and --"+c.Flags+"-key go together")
	}
}

// Open reads the files. follow takes a renewed certificate over until its context
// ends; it is nil where there is none to follow.
func (c *ClientTLS) Open(log *slog.Logger) (config *tls.Config, follow func(context.Context), err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		if config.RootCAs, err = CertPool(c.CA); err != nil {
			return nil, nil, fmt.Errorf("--%s-ca: %w", c.Flags, err)
		}
	}
	if c.Cert == "" {
		return config, nil, nil
	}
	certificate, err := serve.OpenCertificate(c.Cert, c.Key, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--%s-cert: %w", c.Flags, err)
	}
	current := certificate.TLS().GetCertificate
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return current(nil) }
	return config, certificate.Run, nil
}

// poolMax bounds a file of certificates: the whole of a system's has some 200 KiB.
const poolMax = 4 << 20 // bytes

// CertPool reads PEM certificates.
func CertPool(file string) (*x509.CertPool, error) {
	text, err := filewatch.Read(file, poolMax)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("no PEM certificate in " + file)
	}
	return pool, nil
}
