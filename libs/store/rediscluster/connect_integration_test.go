package rediscluster

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/store/breaker"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// A connection that a look at the topology has begun goes on being made when another
// node has answered and the look is over: calls wait for the same one, and nobody
// has cancelled them.
func TestLookAtTopologyGivesUpNoConnection(t *testing.T) {
	c := envtest.RedisCluster(t, testenv.RedisClusterConfig{})
	far := c.Nodes()[0].Address()
	cfg := Config{URL: "redis://" + c.Nodes()[1].Address()}
	option, err := cfg.option()
	if err != nil {
		t.Fatal(err)
	}
	begun, there := make(chan context.Context, 1), make(chan struct{})
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		if address == far {
			begun <- ctx
			select {
			case <-there:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return dialer.DialContext(ctx, "tcp", address)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	looked := make(chan error, 1)
	go func() {
		s := newShards(func(string, breaker.State, breaker.State) {}, nil)
		looked <- s.refresh(t.Context(), client, func() time.Duration { return 0 })
	}()
	making := <-begun
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
	if making.Err() != nil {
		t.Errorf("the look is over, and the connection to %s given up: %v", far, making.Err())
	}
	close(there)
	if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
		t.Error(err)
	}
}
