package serve

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// oneConn is a listener that has one connection to give.
type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// dial serves h with a client timeout of one minute, in the time of the test's
// bubble, and returns a connection to it.
func dial(t *testing.T, h http.HandlerFunc) net.Conn {
	t.Helper()
	client, conn := net.Pipe()
	l := &oneConn{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- conn
	s := newServer(Endpoint{Handler: h}, func() bool { return false }, slog.New(slog.DiscardHandler))
	go func() { _ = s.serve(l) }()
	t.Cleanup(func() {
		_ = client.Close()
		_ = s.Close()
		s.cut()
	})
	return client
}

// TestStalledBodyIsGivenUp: a client that sends nothing of a body for a minute is
// answered and let go; one that sends a byte now and then is not.
func TestStalledBodyIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		read := make(chan string, 1)
		c := dial(t, func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			read <- fmt.Sprintf("%d bytes, failed %v, after %v", len(got), err != nil, time.Since(began))
			w.WriteHeader(http.StatusRequestTimeout)
		})
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n")
		for range 3 {
			fmt.Fprint(c, "x")
			time.Sleep(50 * time.Second) // the bubble's time, not the test's
		}
		reader := bufio.NewReader(c)
		response, err := http.ReadResponse(reader, nil)
		if err != nil || response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("got %v, %v", response, err)
		}
		if got, want := <-read, "3 bytes, failed true, after 2m40s"; got != want {
			t.Errorf("the handler read %s, want %s", got, want)
		}
		if _, err := reader.ReadByte(); err == nil {
			t.Error("the connection stays open")
		}
	})
}

// TestBodyMayPauseOnceTheAnswerHasBegun: as it does in a stream both ways.
func TestBodyMayPauseOnceTheAnswerHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.EnableFullDuplex()
			_ = control.Flush()
			got, err := io.ReadAll(r.Body)
			fmt.Fprint(w, string(got), err)
		})
		fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the bubble's
		fmt.Fprint(c, "cd")
		if got, err := io.ReadAll(response.Body); string(got) != "abcd<nil>" {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

// TestStalledReaderIsGivenUp: a client that takes nothing of an answer for a minute
// keeps no handler, nor does one that sends requests and reads no answers; a
// stream that has nothing to say for an hour goes on.
func TestStalledReaderIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ended := make(chan string, 1)
		c := dial(t, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Hour)
			fmt.Fprint(w, "second\n")
			err := http.NewResponseController(w).Flush()
			for err == nil {
				_, err = io.WriteString(w, strings.Repeat("x", 1<<16))
			}
			ended <- time.Since(began).String()
		})
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(response.Body)
		for _, want := range []string{"first\n", "second\n"} {
			if got, err := body.ReadString('\n'); got != want {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		if got, want := <-ended, "1h1m0s"; got != want {
			t.Errorf("the handler ended after %s, want %s", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "short") })
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			t.Error("an answer that nobody took for a minute is still being written")
		}
	})
}

// TestTimeBetweenRequestsIsTheIdleTimeout: the bound on writing an answer does not
// reach into the next request.
func TestTimeBetweenRequestsIsTheIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(90 * time.Second)
			fmt.Fprint(w, "ok")
		})
		reader := bufio.NewReader(c)
		for range 2 {
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(response.Body); string(got) != "ok" {
				t.Errorf("got %s, %v", got, err)
			}
			time.Sleep(90 * time.Second)
		}
		time.Sleep(idleTimeout)
		if _, err := reader.ReadByte(); err == nil {
			t.Error("an idle connection stays open")
		}
	})
}
