package feed

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// Config is what a Feed is made of. Addresses, Domain, Pod and Logger are required.
type Config struct {
	Addresses []string // of instances of the service: see CheckAddress
	Domain    string
	Pod       *rulesv1.Pod
	Token     string      // "" for none, or that of TokenFile
	TokenFile string      // path; followed, so that the token can be replaced. "" for none
	TLS       *tls.Config // for https; nil: the system's certificates
	Copy      string      // path of the copy on disk, in a folder that is there; "" for none
	Options   []ruleset.Option
	Logger    *slog.Logger
	// Dial makes connections; nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Bounds of a configuration, as watch.proto has them.
const (
	addressesMax = 64
	podIDMax     = 128 // bytes, as the next one
	regionMax    = 64
)

// Validate tells all that is wrong with the configuration; Open does, too.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if n := len(c.Addresses); n < 1 || n > addressesMax {
		fault("the rules service has %d addresses: want 1 to %d", n, addressesMax)
	}
	for _, address := range c.Addresses {
		if err := CheckAddress(address); err != nil {
			faults = append(faults, err)
		}
	}
	if err := limit.ValidateDomain(c.Domain); err != nil {
		faults = append(faults, err)
	}
	if id := c.Pod.GetId(); id == "" || len(id) > podIDMax || !printable(id) {
		fault("pod id %.40q: want 1 to %d bytes of printable ASCII", id, podIDMax)
	}
	if region := c.Pod.GetRegion(); len(region) > regionMax || !printable(region) {
		fault("region %.40q: want at most %d bytes of printable ASCII", region, regionMax)
	}
	if c.Token != "" && c.TokenFile != "" {
		fault("the token is there twice: want a token or a file that holds it")
	}
	return errors.Join(faults...)
}

func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// CheckAddress reports what is wrong with the address of an instance: want
// http://HOST[:PORT][/PATH] or https://…. The error does not show a user or password.
func CheckAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("an address cannot be read: want http://HOST:PORT or https://HOST:PORT")
	case u.User != nil:
		return fmt.Errorf("the address of %s must not hold a user or password: they would show in process lists and logs; give a token file", u.Host)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("address %.100q: want http://HOST:PORT or https://HOST:PORT", u.Redacted())
	}
	return nil
}
