package feed

import (
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

const (
	dialTimeout      = 3 * time.Second
	keepAlive        = 15 * time.Second // between probes of a connection that reports are sent on
	idleTimeout      = 90 * time.Second // of such a connection: several reports
	responseTimeout  = 10 * time.Second // for headers to come
	reportTimeout    = 10 * time.Second
	responseReadMax  = 16 << 20 // bytes of one message
	tlsHandshakeTime = 5 * time.Second
)

// service is an instance of the rules service.
type service struct {
	address string
	client  rulesv1.WatchServiceClient
}

func newServices(cfg Config, t token) []*service {
	transport := &http.Transport{
		DialContext: cfg.Dial, TLSClientConfig: cfg.TLS, TLSHandshakeTimeout: tlsHandshakeTime, ResponseHeaderTimeout: responseTimeout,
		IdleConnTimeout: idleTimeout, MaxIdleConnsPerHost: 1, DisableCompression: true, Protocols: new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(true)
	if cfg.Dial == nil {
		transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	}
	client := &http.Client{
		Transport: transport,
		// A token is not sent wherever a response points to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	services := make([]*service, len(cfg.Addresses))
	for i, address := range cfg.Addresses {
		services[i] = &service{address: address, client: rulesv1.NewWatchServiceClient(client, address,
			connect.WithInterceptors(t), connect.WithReadMaxBytes(responseReadMax))}
	}
	return services
}
