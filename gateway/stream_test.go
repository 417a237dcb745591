package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestServerSentEventsArriveAsSent: each event reaches the caller before the next
// one is made.
func TestServerSentEventsArriveAsSent(t *testing.T) {
	next := make(chan struct{})
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}))
	for name, by := range transports(t) {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodGet, g.api+"/v1/items/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", "big-1")
			response, err := by.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			lines := make(chan string)
			go func() {
				defer close(lines)
				for s := bufio.NewScanner(response.Body); s.Scan(); {
					if s.Text() != "" {
						lines <- s.Text()
					}
				}
			}()
			for i := range 3 {
				if got, want := receive(t, lines, "event"), fmt.Sprintf("data: %d", i); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
				next <- struct{}{}
			}
			if got, open := <-lines; open {
				t.Errorf("%q after the end", got)
			}
		})
	}
}

// TestLargeBodyIsNotBuffered: the upstream has the first part of a body before
// the caller sends the second, and the whole is many times what a buffer holds.
func TestLargeBodyIsNotBuffered(t *testing.T) {
	const part = 16 << 20
	arrived := make(chan int64)
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, err := io.CopyN(io.Discard, r.Body, part)
		if err != nil {
			t.Error(err)
		}
		arrived <- first
		rest, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, first+rest)
	}))
	zeros := strings.Repeat("\x00", part)
	for name, by := range transports(t) {
		t.Run(name, func(t *testing.T) {
			body, writer := io.Pipe()
			r, err := http.NewRequest(http.MethodPut, g.api+"/v1/items/7", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", "big-1")
			written := make(chan error, 1)
			go func() {
				_, err := io.WriteString(writer, zeros)
				if err == nil {
					<-arrived
					_, err = io.WriteString(writer, zeros)
				}
				written <- writer.CloseWithError(err)
			}()
			send(t, by, r).want(t, 200, fmt.Sprint(2*part))
			if err := receive(t, written, "end of the body"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestUpgradePasses: a connection that changes its protocol (as WebSocket does) is
// carried both ways, and ends with the gateway.
func TestUpgradePasses(t *testing.T) {
	g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" {
			t.Errorf("no upgrade: %v", r.Header)
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, buffered) // until the gateway ends it
	}))
	c, err := net.Dial("tcp", strings.TrimPrefix(g.api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /v1/items/socket HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("RateLimit") == "" {
		t.Fatalf("got %s, %v", response.Status, response.Header)
	}
	for _, said := range []string{"one\n", "two\n"} {
		fmt.Fprint(c, said)
		if got, err := reader.ReadString('\n'); err != nil || got != said {
			t.Fatalf("got %q, %v; want %q", got, err, said)
		}
	}
	g.stop()
	if _, err := reader.ReadByte(); err == nil {
		t.Error("the connection outlives the gateway")
	}
}

// TestRoughRequestsAreAnswered: what is no request is told so, and an odd one
// passes.
func TestRoughRequestsAreAnswered(t *testing.T) {
	g := start(t, echoes)
	for _, c := range []struct{ name, request, want string }{
		{"an unknown method", "BREW /v1/items/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\n\r\n", "200"},
		{"OPTIONS", "OPTIONS /v1/items/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\n\r\n", "200"},
		{"CONNECT", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "405"},
		{"headers of a megabyte", "GET / HTTP/1.1\r\nHost: a\r\nX-Big: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431"},
		{"a key with NUL", "GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: big\x00-1\r\n\r\n", "400"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"an absolute target", "GET http://elsewhere/v1/items/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\n\r\n", "200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(g.api, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			go io.WriteString(conn, c.request) // the answer may come before it is all sent
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Status[:3]; got != c.want {
				t.Errorf("got %s, want %s", response.Status, c.want)
			}
		})
	}
}
