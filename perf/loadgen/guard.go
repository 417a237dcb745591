package loadgen

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
)

var errRemote = errors.New("the host is not loopback: say --allow-remote to send load to another machine")

// isLoopback reports a host that names this machine: localhost, or an address
// of loopback. Any other name is none, whatever it resolves to.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback() || host == "localhost"
}

// refuseRemote is a net.Dialer's Control: it sees the address after resolution,
// so that a localhost that resolves elsewhere is refused too.
func refuseRemote(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil || !addr.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%s: %w", address, errRemote)
	}
	return nil
}

// newClient makes the one HTTP client of a run: no proxy, no compression, and
// no redirect followed, for each would be a request that nobody planned.
// net/http itself repeats a GET once if the server closes an idle connection
// under it; what that adds is charged by the limiter and not counted here, so
// it can only take admitted requests away, never feign one over the limit.
func newClient(cfg *Config) *http.Client {
	dialer := &net.Dialer{Timeout: cfg.Timeout}
	if !cfg.AllowRemote {
		dialer.Control = refuseRemote
	}
	return &http.Client{
		Timeout: cfg.Timeout,
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			MaxConnsPerHost:     cfg.Connections,
			MaxIdleConnsPerHost: cfg.Connections,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
