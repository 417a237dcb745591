package proxy

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// TestUpstreamThatStopsReadingIsGivenUp: an upload that the upstream does not take
// ends as a timeout of the upstream.
func TestUpstreamThatStopsReadingIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // it accepts nobody, and the kernel does
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr().String(), io.NopCloser(endless{}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		response, err := newTransport(50 * time.Millisecond).RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if err == nil || reasonOf(r, err) != ReasonTimeout {
			t.Errorf("got %v, want a timeout", err)
		}
	case <-time.After(20 * time.Second): // only a failing test comes near it
		t.Error("the upload hangs")
	}
}
