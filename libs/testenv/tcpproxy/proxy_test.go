package tcpproxy_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

const (
	// patience bounds what comes at once unless it is broken.
	patience = 20 * time.Second
	// glance is how long a test looks for what must not come.
	glance = 30 * time.Millisecond
)

// A healthy proxy changes nothing: whatever is sent comes back, in order, and
// the end of each side reaches the other.
func TestHealthyProxyIsTransparent(t *testing.T) {
	p := listen(t, echo(t))
	c := dial(t, p)
	sent := strings.Repeat("0123456789abcdef", 64<<10) // 1 MiB
	go func() {
		io.WriteString(c, sent)
		c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || string(got) != sent {
		t.Errorf("%d bytes came back of %d, equal: %t, %v", len(got), len(sent), string(got) == sent, err)
	}
	eventually(t, func() bool { return p.Connections() == 0 })
	if n := p.Accepted(); n != 1 {
		t.Errorf("%d connections accepted, want 1", n)
	}
}

// Replies come later by the delay, and all that were sent together come
// together: a long wire, not a slow one.
func TestDelayIsLatencyNotThroughput(t *testing.T) {
	const delay, lines = 100 * time.Millisecond, 100
	p := listen(t, echo(t))
	set(t, p, tcpproxy.Faults{Delay: delay})
	c := dial(t, p)
	start := time.Now()
	for i := range lines {
		fmt.Fprintln(c, i)
	}
	for i := range lines {
		if got, want := c.line(), fmt.Sprint(i); got != want {
			t.Fatalf("reply %d is %q", i, got)
		}
		if took := time.Since(start); i == 0 && took < delay {
			t.Errorf("the first reply took %v, want at least %v", took, delay)
		}
	}
	if took := time.Since(start); took > lines*delay/2 {
		t.Errorf("%d replies took %v: they were delayed one after the other", lines, took)
	}
}

// A lost reply belongs to a request that was executed, and its connection stays
// open. TCP brings it late, and in order.
func TestLostReplyIsLate(t *testing.T) {
	served := make(chan string, 2)
	p := listen(t, serve(t, func(line string) string { served <- line; return line }))
	c := dial(t, p)
	set(t, p, tcpproxy.Faults{Loss: 1})
	fmt.Fprintln(c, "one")
	<-served
	c.mustBeQuiet()
	set(t, p, tcpproxy.Faults{})
	fmt.Fprintln(c, "two")
	if one, two := c.line(), c.line(); one != "one" || two != "two" {
		t.Errorf("got %q and %q, want one and two", one, two)
	}
}

// At a probability between, some replies are lost at first and all come in the
// end.
func TestLossIsMadeGood(t *testing.T) {
	p := listen(t, echo(t))
	set(t, p, tcpproxy.Faults{Loss: 0.2})
	c := dial(t, p)
	for i := range 10 {
		fmt.Fprintln(c, i)
		if got, want := c.line(), fmt.Sprint(i); got != want {
			t.Fatalf("reply %d is %q", i, got)
		}
	}
}

// A cut in place of a reply: the request was executed and its caller gets an
// error at once.
func TestCutReplyWasExecuted(t *testing.T) {
	served := make(chan string, 1)
	p := listen(t, serve(t, func(line string) string { served <- line; return line }))
	c := dial(t, p)
	set(t, p, tcpproxy.Faults{Cut: 1})
	fmt.Fprintln(c, "one")
	if got := <-served; got != "one" {
		t.Errorf("the server got %q", got)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want %v", err, syscall.ECONNRESET)
	}
}

// Into silence nothing passes, neither way, and nothing is lost by it.
func TestSilenceHoldsBothWays(t *testing.T) {
	served := make(chan string, 1)
	p := listen(t, serve(t, func(line string) string { served <- line; return line }))
	c := dial(t, p)
	set(t, p, tcpproxy.Faults{Silent: true})
	fmt.Fprintln(c, "one")
	c.mustBeQuiet()
	select {
	case line := <-served:
		t.Errorf("the server got %q", line)
	default:
	}
	set(t, p, tcpproxy.Faults{})
	if got := c.line(); got != "one" {
		t.Errorf("after the silence came %q, want one", got)
	}
}

// Cut resets who is there; who comes after is served.
func TestCutResetsOpenConnections(t *testing.T) {
	p := listen(t, echo(t))
	c := dial(t, p)
	fmt.Fprintln(c, "one")
	c.line()
	p.Cut()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want %v", err, syscall.ECONNRESET)
	}
	later := dial(t, p)
	fmt.Fprintln(later, "two")
	if got := later.line(); got != "two" {
		t.Errorf("a later client got %q, want two", got)
	}
}

// A shut proxy refuses as if there were no server, keeps who is connected, and
// opens on the same address.
func TestShutProxyRefuses(t *testing.T) {
	p := listen(t, echo(t))
	c := dial(t, p)
	fmt.Fprintln(c, "one")
	c.line()
	for range 3 {
		p.Shut()
		if _, err := net.Dial("tcp", p.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dialling: %v, want %v", err, syscall.ECONNREFUSED)
		}
		if err := p.Open(); err != nil {
			t.Fatal(err)
		}
		dial(t, p)
	}
	fmt.Fprintln(c, "two")
	if got := c.line(); got != "two" {
		t.Errorf("the open connection got %q, want two", got)
	}
	p.Close()
	if err := p.Open(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("opening after Close: %v, want %v", err, net.ErrClosed)
	}
}

// A client of a server that is not there is reset.
func TestNoServerResets(t *testing.T) {
	p := listen(t, "127.0.0.1:1")
	c, err := net.Dial("tcp", p.Address())
	if err == nil { // it can be as fast as that
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want %v", err, syscall.ECONNRESET)
	}
}

// Faults out of range are refused, by name.
func TestFaultsAreChecked(t *testing.T) {
	p := listen(t, echo(t))
	for want, faults := range map[string]tcpproxy.Faults{
		"delay -1s": {Delay: -time.Second},
		"loss 1.1":  {Loss: 1.1},
		"cut -0.1":  {Cut: -0.1},
	} {
		if err := p.Set(faults); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Set(%+v): %v, want an error with %q", faults, err, want)
		}
	}
}

func listen(t *testing.T, target string) *tcpproxy.Proxy {
	t.Helper()
	p, err := tcpproxy.Listen("127.0.0.1", target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func set(t *testing.T, p *tcpproxy.Proxy, faults tcpproxy.Faults) {
	t.Helper()
	if err := p.Set(faults); err != nil {
		t.Fatal(err)
	}
}

func echo(t *testing.T) (address string) {
	return serve(t, func(line string) string { return line })
}

// serve answers lines of text, one at a time.
func serve(t *testing.T, answer func(line string) string) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				lines := bufio.NewReader(c)
				for {
					line, err := lines.ReadString('\n')
					if ended := strings.TrimSuffix(line, "\n"); ended != line {
						line = answer(ended) + "\n"
					}
					io.WriteString(c, line)
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// client reads within a deadline.
type client struct {
	*net.TCPConn

	t     *testing.T
	lines *bufio.Reader
}

func dial(t *testing.T, p *tcpproxy.Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return client{c.(*net.TCPConn), t, bufio.NewReader(c)}
}

func (c client) line() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (c client) mustBeQuiet() {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(glance))
	if b, err := c.lines.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("got %q, %v, want nothing", b, err)
	}
	c.SetDeadline(time.Now().Add(patience))
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not so within %v", patience)
		}
		time.Sleep(time.Millisecond)
	}
}
