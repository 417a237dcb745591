package edge

import (
	"bytes"
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

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// checkOnce is a check in JSON, of the rules that all scenarios have.
const checkOnce = `{"domain":"public-api","entries":[{"rule":"all-ip","key":"198.51.100.7"}]}`

const checkPath = "/v1/ratelimit:check"

// checkJSON checks once on a connection of its own.
func checkJSON(ctx context.Context, b *bench, body io.Reader) (int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+b.gateway.API+checkPath, body)
	if err != nil {
		return 0, err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// checkGRPC checks once on a connection.
func checkGRPC(ctx context.Context, conn *grpc.ClientConn, key string) error {
	q := &checkv1.CheckRequest{Domain: "public-api", Entries: []*checkv1.Entry{{Rule: "all-ip", Key: key}}}
	return conn.Invoke(ctx, checkv1.CheckServiceCheckProcedure, q, new(checkv1.CheckResponse))
}

func dialGRPC(b *bench) (*grpc.ClientConn, error) {
	return grpc.NewClient(b.gateway.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// honest asserts that both ports serve, and returns what a check took at the first.
func honest(ctx context.Context, b *bench) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	began := time.Now()
	if code, err := checkJSON(ctx, b, strings.NewReader(checkOnce)); err != nil || code != http.StatusOK {
		return 0, fmt.Errorf("an honest check: status %d, %w", code, err)
	}
	took := time.Since(began).Round(10 * time.Microsecond)
	conn, err := dialGRPC(b)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := checkGRPC(ctx, conn, "198.51.100.7"); err != nil {
		return 0, fmt.Errorf("an honest check by gRPC: %w", err)
	}
	return took, nil
}

// checkerSlow has clients at both ports that never finish what they begin.
func checkerSlow(ctx context.Context, b *bench) (string, error) {
	const clients = 1000           // at each port
	const letGo = 75 * time.Second // one that stops in a body is given a minute
	stuck := map[string][]string{
		b.gateway.API: {
			"POST " + checkPath + " HTTP/1.1\r\nHost: a\r\nX-A: ",
			"POST " + checkPath + " HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
			"",
		},
		b.gateway.GRPC: {"", http2.ClientPreface[:10], http2.ClientPreface + "\x00\x00"},
	}
	var mu sync.Mutex
	var conns []net.Conn
	for address, openings := range stuck {
		closeAll, err := hold(ctx, address, clients, func(c net.Conn) error {
			mu.Lock()
			opening := openings[len(conns)%len(openings)]
			conns = append(conns, c)
			mu.Unlock()
			_, err := io.WriteString(c, opening)
			return err
		})
		defer closeAll()
		if err != nil {
			return "", err
		}
	}
	took, err := honest(ctx, b)
	if err != nil {
		return "", err
	}
	if let := gone(conns, letGo); let != len(conns) {
		return "", fmt.Errorf("%d of %d connections were ended", let, len(conns))
	}
	return fmt.Sprintf("%d clients that dribble at two ports were let go; an honest check took %v", len(conns), took), b.gateway.Within(hostileMemory)
}

// checkerSize sends messages above the bounds to both ports, many at once.
func checkerSize(ctx context.Context, b *bench) (string, error) {
	const clients, size = 200, 8 << 20
	huge := bytes.Repeat([]byte("x"), size)
	body := append([]byte(`{"domain":"`), huge...) // what is no JSON is refused at its first byte
	conn, err := dialGRPC(b)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	var sending sync.WaitGroup
	var refusedJSON, refusedGRPC atomic.Int64
	for range clients {
		sending.Go(func() {
			code, err := checkJSON(ctx, b, bytes.NewReader(body))
			// The checker does not wait for the rest: its answer may be overtaken by
			// the end of the connection.
			var network *net.OpError
			if code == http.StatusRequestEntityTooLarge || errors.As(err, &network) {
				refusedJSON.Add(1)
			}
			if status.Code(checkGRPC(ctx, conn, string(huge))) == codes.ResourceExhausted {
				refusedGRPC.Add(1)
			}
		})
	}
	sending.Wait()
	if refusedJSON.Load() != clients || refusedGRPC.Load() != clients {
		return "", fmt.Errorf("refused %d bodies and %d messages of %d each", refusedJSON.Load(), refusedGRPC.Load(), clients)
	}
	took, err := honest(ctx, b)
	return fmt.Sprintf("%d bodies and %d messages of 8 MiB refused; an honest check took %v", clients, clients, took), errors.Join(err, b.gateway.Within(hostileMemory))
}

// checkerIdle holds connections of gRPC, and lets a tenth of them call.
func checkerIdle(ctx context.Context, b *bench) (string, error) {
	before, err := b.gateway.Memory()
	if err != nil {
		return "", err
	}
	closeAll, err := hold(ctx, b.gateway.GRPC, b.Connections, func(c net.Conn) error {
		if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
			return err
		}
		frames := http2.NewFramer(c, c)
		if err := frames.WriteSettings(); err != nil {
			return err
		}
		_, err := frames.ReadFrame() // the checker's settings: it has taken the connection
		return err
	})
	defer closeAll()
	if err != nil {
		return "", err
	}
	idle, err := b.gateway.Memory()
	if err != nil {
		return "", err
	}
	calls, err := active(ctx, b, b.Connections/10)
	if err != nil {
		return "", err
	}
	busy, err := b.gateway.Memory()
	if err != nil {
		return "", err
	}
	took, err := honest(ctx, b)
	return fmt.Sprintf("%d connections idle: %.1f KiB each; %d more active, %d checks: %v in all; an honest check took %v",
		b.Connections, float64(idle.Now-before.Now)/1024/float64(b.Connections), b.Connections/10, calls, busy.Now, took), errors.Join(err, b.gateway.Within(hostileMemory))
}

// active opens n connections that call in turn for a few seconds.
func active(ctx context.Context, b *bench, n int) (calls int64, err error) {
	const each = 20 // calls
	failed := make([]error, n)
	var calling sync.WaitGroup
	for i := range n {
		calling.Go(func() {
			conn, err := dialGRPC(b)
			if err != nil {
				failed[i] = err
				return
			}
			defer conn.Close()
			for range each {
				if failed[i] = checkGRPC(ctx, conn, fmt.Sprintf("10.0.%d.%d", i/256, i%256)); failed[i] != nil {
					return
				}
			}
		})
	}
	calling.Wait()
	return int64(n) * each, errors.Join(failed...)
}
