package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shiplane/limits/libs/filewatch"
)

// pemMax bounds a certificate or key file: a long chain has some 20 KiB.
const pemMax = 1 << 20 // bytes

// Certificate is a certificate and its key in two PEM files, followed while the
// process runs. A pair that does not fit, as between the two writes of a
// renewal, changes nothing. Safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]

	mu              sync.Mutex
	certPEM, keyPEM []byte
}

// OpenCertificate reads a pair. Its error names the file, and never shows the key.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	var err error
	if c.certPEM, err = filewatch.Read(certFile, pemMax); err != nil {
		return nil, err
	}
	if c.keyPEM, err = filewatch.Read(keyFile, pemMax); err != nil {
		return nil, err
	}
	return c, c.load()
}

// Run follows the files until ctx ends: a renewed pair is in force within a
// second after its second file was replaced, for connections made from then on.
func (c *Certificate) Run(ctx context.Context) {
	var watches sync.WaitGroup
	watches.Go(func() {
		filewatch.Watch(ctx, c.certFile, pemMax, func(pem []byte, err error) { c.take(&c.certPEM, pem, err) })
	})
	watches.Go(func() {
		filewatch.Watch(ctx, c.keyFile, pemMax, func(pem []byte, err error) { c.take(&c.keyPEM, pem, err) })
	})
	watches.Wait()
}

// TLS returns the configuration of a server with this certificate: TLS 1.2 or
// later.
func (c *Certificate) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// take puts what was read of one file in the place of what was known of it.
func (c *Certificate) take(known *[]byte, pem []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		if string(*known) == string(pem) {
			return
		}
		*known = pem
		err = c.load()
	}
	if err != nil {
		c.log.Warn("the certificate stays as it was", "error", err)
		return
	}
	c.log.Info("the certificate was renewed", "file", c.certFile, "subject", c.current.Load().Leaf.Subject.String(), "not_after", c.current.Load().Leaf.NotAfter)
}

func (c *Certificate) load() error {
	pair, err := tls.X509KeyPair(c.certPEM, c.keyPEM)
	if err != nil {
		return fmt.Errorf("%s and %s are no pair of certificate and key: %w", c.certFile, c.keyFile, err)
	}
	if pair.Leaf == nil {
		return fmt.Errorf("%s holds no certificate: %w", c.certFile, errors.ErrUnsupported)
	}
	if time.Now().After(pair.Leaf.NotAfter) {
		c.log.Warn("the certificate has expired", "file", c.certFile, "not_after", pair.Leaf.NotAfter)
	}
	c.current.Store(&pair)
	return nil
}
