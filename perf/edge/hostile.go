package edge

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// hostileMemory bounds what hostile clients may cost the gateway.
const hostileMemory = 768 << 20

// probe measures an honest request while something else goes on.
func probe(ctx context.Context, b *bench) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := time.Now()
	_, err := call(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, http.MethodGet, "http://"+b.gateway.API+"/", nil, 0)
	return time.Since(began), err
}

// hold opens n connections, in parallel, and has each do something. It returns
// what closes them.
func hold(ctx context.Context, address string, n int, each func(c net.Conn) error) (closeAll func(), err error) {
	conns := make([]net.Conn, n)
	failed := make([]error, n)
	var opening sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		opening.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				var dialer net.Dialer
				if conns[i], failed[i] = dialer.DialContext(ctx, "tcp", address); failed[i] == nil {
					failed[i] = each(conns[i])
				}
			}
		})
	}
	opening.Wait()
	closeAll = func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}
	return closeAll, errors.Join(failed...)
}

// gone counts connections that the gateway ends, as it has to within limit.
func gone(closing []net.Conn, limit time.Duration) (n int) {
	end := time.Now().Add(limit)
	for _, c := range closing {
		_ = c.SetReadDeadline(end)
		if _, err := io.Copy(io.Discard, c); err == nil || !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
			n++
		}
	}
	return n
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// slowloris has clients that never finish a header, and clients that stop in the
// middle of a body: all are let go, and honest ones are served meanwhile.
func slowloris(ctx context.Context, b *bench) (string, error) {
	const clients = 1000
	var mu sync.Mutex
	var conns []net.Conn
	openings := [...]string{
		"GET / HTTP/1.1\r\nHost: a\r\nX-A: ",
		"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nabc",
		"PRI * HTTP/2.0\r\n\r\nSM",
		"",
	}
	i := 0
	closeAll, err := hold(ctx, b.gateway.API, clients, func(c net.Conn) error {
		mu.Lock()
		conns = append(conns, c)
		opening := openings[i%len(openings)]
		i++
		mu.Unlock()
		_, err := io.WriteString(c, opening)
		return err
	})
	defer closeAll()
	if err != nil {
		return "", err
	}
	honest, err := probe(ctx, b)
	if err != nil {
		return "", fmt.Errorf("an honest request: %w", err)
	}
	if let := gone(conns, 25*time.Second); let != clients {
		return "", fmt.Errorf("%d of %d connections were ended", let, clients)
	}
	return fmt.Sprintf("%d clients that dribble were let go; an honest request took %v", clients, honest.Round(10*time.Microsecond)), b.gateway.Within(hostileMemory)
}

// headers sends many large headers, and some without an end.
func headers(ctx context.Context, b *bench) (string, error) {
	const clients = 500
	var statuses sync.Map
	many := "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("a:b\r\n", 12_000) + "\r\n"
	endless := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 4<<20)
	var i atomic.Int64
	closeAll, err := hold(ctx, b.gateway.API, clients, func(c net.Conn) error {
		request := many
		if i.Add(1)%2 == 0 {
			request = endless
		}
		written := make(chan struct{})
		go func() { defer close(written); _, _ = io.WriteString(c, request) }() // the answer may come first
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		count, _ := statuses.LoadOrStore(response.StatusCode, new(atomic.Int64))
		count.(*atomic.Int64).Add(1)
		_ = c.Close()
		<-written
		return nil
	})
	defer closeAll()
	if err != nil {
		return "", err
	}
	honest, err := probe(ctx, b)
	if err != nil {
		return "", fmt.Errorf("an honest request: %w", err)
	}
	var said []string
	statuses.Range(func(status, count any) bool {
		said = append(said, fmt.Sprintf("%d times %d", count.(*atomic.Int64).Load(), status))
		return true
	})
	return fmt.Sprintf("12,000 fields and 4 MiB without an end, %d clients: %s; an honest request took %v", clients, strings.Join(said, ", "), honest.Round(10*time.Microsecond)), b.gateway.Within(hostileMemory)
}

// idle holds connections that have made a request each and wait for the next.
func idle(ctx context.Context, b *bench) (string, error) {
	closeAll, err := hold(ctx, b.gateway.API, b.Connections, func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	defer closeAll()
	if err != nil {
		return "", err
	}
	m, err := b.gateway.Memory()
	if err != nil {
		return "", err
	}
	honest, err := probe(ctx, b)
	if err != nil {
		return "", fmt.Errorf("an honest request: %w", err)
	}
	return fmt.Sprintf("%d connections idle, %.1f KiB of memory each; an honest request took %v",
		b.Connections, float64(m.Now)/1024/float64(b.Connections), honest.Round(10*time.Microsecond)), b.gateway.Within(hostileMemory)
}
