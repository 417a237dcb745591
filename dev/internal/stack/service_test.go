package stack

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// patience bounds what happens at once unless it is broken.
const patience = 20 * time.Second

// Whoever asks whether a service is ready leaves no connection behind, also when many
// ask at a time: the service's end would wait for a request on it.
func TestAskersLeaveNoConnection(t *testing.T) {
	var open sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Done()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	var asking sync.WaitGroup
	for range 20 {
		asking.Go(func() {
			if err := answersOK(t.Context(), server.URL); err != nil {
				t.Error(err)
			}
		})
	}
	asking.Wait()
	closed := make(chan struct{})
	go func() { open.Wait(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Errorf("a connection is open after %v", patience)
	}
}
