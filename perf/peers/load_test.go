package peers

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// server answers every third call with a refusal and every seventh with an error.
type server struct {
	ratelimit.UnimplementedRateLimitServiceServer
	calls, refusals, errors atomic.Int64
	keys                    [3]atomic.Int64
}

func (s *server) ShouldRateLimit(_ context.Context, q *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	n := s.calls.Add(1)
	account := q.GetDescriptors()[0].GetEntries()[1].GetValue()
	s.keys[account[len(account)-1]-'0'].Add(1)
	switch {
	case n%7 == 0:
		s.errors.Add(1)
		return nil, status.Error(codes.Unavailable, "as told")
	case n%3 == 0:
		s.refusals.Add(1)
		return &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OVER_LIMIT}, nil
	}
	return &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}, nil
}

// The load counts what the service has answered, one for one, and calls with
// every key as often.
func TestLoadCountsEachAnswerOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var s server
	g := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(g, &s)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)

	l := &load{address: listener.Addr().String(), method: envoyProtocol.method, read: envoyProtocol.read, connections: 3, inFlight: 5}
	for _, key := range []string{"acct-0", "acct-1", "acct-2"} {
		m, err := envoyProtocol.message(key, []string{ample})
		if err != nil {
			t.Fatal(err)
		}
		l.messages = append(l.messages, m)
	}
	got, err := l.run(t.Context(), 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	want := tally{admitted: s.calls.Load() - s.refusals.Load() - s.errors.Load(), refused: s.refusals.Load(), failed: s.errors.Load()}
	if got != want || got.failed == 0 || got.refused == 0 {
		t.Errorf("counted %+v; the service answered %+v", got, want)
	}
	least, most := s.keys[0].Load(), s.keys[0].Load()
	for i := range s.keys {
		least, most = min(least, s.keys[i].Load()), max(most, s.keys[i].Load())
	}
	// Each connection goes round: it is ahead by one for some keys at its end.
	if most-least > int64(l.connections) {
		t.Errorf("the keys were called %d to %d times: want as often, but for %d", least, most, l.connections)
	}
}

// A connection that breaks is an error, not fewer calls.
func TestLoadSaysThatAConnectionBroke(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	l := &load{address: listener.Addr().String(), method: envoyProtocol.method, read: envoyProtocol.read, connections: 1, inFlight: 1, messages: [][]byte{nil}}
	if got, err := l.run(t.Context(), time.Minute); err == nil {
		t.Errorf("counted %+v and no error: want one", got)
	}
}
