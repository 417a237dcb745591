package grpcserver_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/shiplane/limits/checker/internal/grpcserver"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// service does in a check what a test says.
type service struct {
	checkv1.CheckServiceHandler
	check func(context.Context) (*checkv1.CheckResponse, error)
}

func (s service) Check(ctx context.Context, _ *checkv1.CheckRequest) (*checkv1.CheckResponse, error) {
	return s.check(ctx)
}

// running is a server under test.
type running struct {
	*grpcserver.Server
	address string
	conn    *grpc.ClientConn
	log     *bytes.Buffer // read after a call has ended
	ended   chan error
}

func start(t *testing.T, check func(context.Context) (*checkv1.CheckResponse, error)) *running {
	t.Helper()
	log := &bytes.Buffer{}
	pass := func(ctx context.Context, q any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(ctx, q)
	}
	r := &running{log: log, ended: make(chan error, 1), Server: grpcserver.New(grpcserver.Config{
		RequestMax: 1 << 10, Ready: func() error { return nil }, Logger: slog.New(slog.NewTextHandler(log, nil)), Unary: pass,
		Stream: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			return next(srv, stream)
		},
	})}
	grpcserver.RegisterCheck(r, service{check: check})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.Addr().String()
	go func() { r.ended <- r.Serve(l) }()
	if r.conn, err = grpc.NewClient("passthrough:///"+r.address, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close(); r.Stop() })
	return r
}

// refuses waits until the server accepts no more connections.
func (r *running) refuses(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			return
		}
		_ = c.Close()
	}
	t.Fatal("the server accepts connections while it drains")
}

func (r *running) call(ctx context.Context) error {
	return r.conn.Invoke(ctx, checkv1.CheckServiceCheckProcedure, &checkv1.CheckRequest{}, &checkv1.CheckResponse{})
}

// A panic is one call's failure: it is logged, its text is not told, and the server
// serves on. So is an error that is not the contract's.
func TestPanicIsOneCallsFailure(t *testing.T) {
	fault := func() { panic("secret") }
	r := start(t, func(context.Context) (*checkv1.CheckResponse, error) {
		fault()
		return nil, nil
	})
	for range 2 {
		if err := r.call(t.Context()); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
	if !strings.Contains(r.log.String(), "secret") || !strings.Contains(r.log.String(), "server_test.go") {
		t.Errorf("the log lacks the panic or its place: %s", r.log)
	}
	if err := grpcserver.Status(errors.New("secret")); status.Code(err) != codes.Unknown || strings.Contains(err.Error(), "secret") {
		t.Errorf("an error of no code: %v", err)
	}
}

// A drain waits for the calls in flight.
func TestDrainWaitsForCalls(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	r := start(t, func(context.Context) (*checkv1.CheckResponse, error) {
		close(arrived)
		<-release
		return &checkv1.CheckResponse{}, nil
	})
	answered := make(chan error, 1)
	go func() { answered <- r.call(t.Context()) }()
	<-arrived
	drained := make(chan error, 1)
	go func() { drained <- r.Drain(t.Context()) }()
	r.refuses(t)
	select {
	case err := <-drained:
		t.Fatalf("drained beside a call in flight: %v", err)
	default:
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := errors.Join(<-drained, <-r.ended); err != nil {
		t.Errorf("Drain or Serve: %v", err)
	}
}

// A drain whose time is over cuts what is left, and returns when no handler runs.
func TestDrainIsBounded(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	r := start(t, func(ctx context.Context) (*checkv1.CheckResponse, error) {
		close(arrived)
		<-ctx.Done()
		close(left)
		return nil, ctx.Err()
	})
	answered := make(chan error, 1)
	go func() { answered <- r.call(t.Context()) }()
	<-arrived
	over, end := context.WithCancel(t.Context())
	end()
	if err := r.Drain(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Drain: %v", err)
	}
	select {
	case <-left:
	default:
		t.Error("a handler runs after the drain")
	}
	if err := <-answered; err == nil {
		t.Error("a call that was cut was answered")
	}
}
