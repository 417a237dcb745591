package port_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/shiplane/limits/libs/testenv/port"
)

// A server can listen on its port, stop, and listen on it again.
func TestServerHasItsPortAgain(t *testing.T) {
	p := reserve(t)
	for range 3 {
		listener, err := net.Listen("tcp", p.String())
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", p.String())
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
		listener.Close()
	}
}

// While its server is away a port is nobody else's: neither who asks for a free
// one gets it, nor who wants it for himself alone.
func TestReservedPortIsNobodyElses(t *testing.T) {
	p := reserve(t)
	alone := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if err := syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0); err != nil {
				t.Error(err)
			}
		})
	}}
	if l, err := alone.Listen(context.Background(), "tcp", p.String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening alone on %s: %v, %v, want %v", p, l, err, syscall.EADDRINUSE)
	}
	seen := map[string]bool{p.String(): true}
	for range 200 {
		other := reserve(t)
		if seen[other.String()] {
			t.Fatalf("%s was reserved twice", other)
		}
		seen[other.String()] = true
	}
}

// A reserved port without a server refuses, as that of a server that died.
func TestReservedPortRefuses(t *testing.T) {
	p := reserve(t)
	if _, err := net.Dial("tcp", p.String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling %s: %v, want %v", p, err, syscall.ECONNREFUSED)
	}
}

// No port is opened to the network by mistake.
func TestOnlyLoopbackIsReserved(t *testing.T) {
	for _, address := range []string{"", "0.0.0.0", "10.0.0.1", "::1", "localhost", "127.0.0.1:80"} {
		if p, err := port.Reserve(address); err == nil {
			p.Release()
			t.Errorf("Reserve(%q) gave %s, want an error", address, p)
		}
	}
	p, err := port.Reserve("127.0.7.1")
	if err != nil {
		t.Fatal(err)
	}
	p.Release()
	p.Release()
}

func reserve(t *testing.T) *port.Port {
	t.Helper()
	p, err := port.Reserve("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p
}
