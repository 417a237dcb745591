package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
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

// TestStalledBodyHoldsBackNoAnswer: net/http reads the rest of a short body before
// it sends an answer that the handler gives without it. A client that owes that
// rest is answered within the timeout (one for each thing that waits: the write, and
// the body's closing) and let go, whoever answers, and when.
func TestStalledBodyHoldsBackNoAnswer(t *testing.T) {
	refuse := func(w http.ResponseWriter, status int) {
		w.WriteHeader(status)
		fmt.Fprint(w, "no")
	}
	for name, handler := range map[string]http.HandlerFunc{
		"refused unread":  func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusTooManyRequests) },
		"no content":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"refused, closed": func(w http.ResponseWriter, r *http.Request) { refuse(w, http.StatusUnauthorized); _ = r.Body.Close() },
		"flushed": func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusUnauthorized)
			_ = http.NewResponseController(w).Flush()
		},
		"refused after a read that had a deadline": func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			_ = control.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, _ = io.ReadAll(r.Body)
			_ = control.SetReadDeadline(time.Time{})
			refuse(w, http.StatusRequestTimeout)
		},
	} {
		for _, length := range []string{"Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n9\r\n{"} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					ended := make(chan struct{})
					c := dial(t, func(w http.ResponseWriter, r *http.Request) {
						handler(w, r)
						close(ended)
					})
					_ = c.SetDeadline(began.Add(time.Hour))
					fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\n"+length)
					reader := bufio.NewReader(c)
					response, err := http.ReadResponse(reader, nil)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
						t.Errorf("after the answer: %v, want the end", err)
					}
					<-ended
					if took := time.Since(began); took > 2*clientTimeout+2*time.Second {
						t.Errorf("it took %v", took)
					}
				})
			})
		}
	}
}

// TestStalledBodyHoldsBackNoEarlyAnswer: neither if somebody still reads the body,
// as it is sent to an upstream that does not want it. By the clock: a bubble's
// stands still while net/http waits for its own lock.
func TestStalledBodyHoldsBackNoEarlyAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(Endpoint{ClientTimeout: 50 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.ReadFull(r.Body, make([]byte, 1))
			close(first)
			_, _ = io.ReadAll(r.Body)
		}()
		<-first
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_ = http.NewResponseController(w).Flush()
		_ = r.Body.Close()
		<-ended
	})}, func() bool { return false }, slog.New(slog.DiscardHandler))
	go func() { _ = s.serve(l) }()
	t.Cleanup(func() { _ = s.Close(); s.cut() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second)) // only a failing test comes near it
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatalf("got %v, %v", response, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	if _, err := reader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the answer: %v, want the end", err)
	}
}

// TestRestOfABodyThatComesKeepsTheConnection: only one that stalls costs it.
func TestRestOfABodyThatComesKeepsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) })
		reader := bufio.NewReader(c)
		for range 2 {
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab")
			time.Sleep(clientTimeout / 2)
			fmt.Fprint(c, "cd")
			response, err := http.ReadResponse(reader, nil)
			if err != nil || response.StatusCode != http.StatusTooManyRequests || response.Close {
				t.Fatalf("got %v, %v", response, err)
			}
			time.Sleep(clientTimeout + time.Second) // no bound reaches into the next request
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
