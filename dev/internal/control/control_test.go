package control_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/shiplane/limits/dev/internal/control"
	"github.com/shiplane/limits/dev/internal/stack"
)

// fake does what it is told, and refuses to kill.
type fake struct{}

func (fake) Status(context.Context) stack.Status { return stack.Status{PID: 42} }

func (fake) Do(_ context.Context, o stack.Order) (string, error) {
	if o.Verb == stack.Kill {
		return "", errors.New("it refuses")
	}
	return string(o.Verb) + " " + o.Name, nil
}

// What is asked at the socket reaches the system, its answer and its refusals come
// back in its words, and where nothing runs that is what is said.
func TestOrdersReachTheSystem(t *testing.T) {
	dir := t.TempDir()
	client := control.NewClient(dir)
	if _, err := client.Status(t.Context()); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("got %v, want %v", err, control.ErrNotRunning)
	}
	listener, err := control.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: control.Handler(fake{})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	if status, err := client.Status(t.Context()); err != nil || status.PID != 42 {
		t.Errorf("status %+v, %v", status, err)
	}
	if said, err := client.Do(t.Context(), stack.Order{Verb: stack.Freeze, Name: "rules"}); said != "freeze rules\n" || err != nil {
		t.Errorf("said %q, %v", said, err)
	}
	if _, err := client.Do(t.Context(), stack.Order{Verb: stack.Kill}); err == nil || err.Error() != "it refuses" {
		t.Errorf("got %v, want the system's words", err)
	}
}

// A folder whose path is too long for a socket is named, before anything starts.
func TestLongPathIsNamed(t *testing.T) {
	if _, err := control.Listen("/tmp/" + strings.Repeat("x", 200)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}
