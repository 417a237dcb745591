// Package control is how the commands of other terminals reach the process that
// runs the system: HTTP over a socket in its folder, which only its user may enter.
package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/shiplane/limits/dev/internal/stack"
)

// socketFile is the socket's name in the folder.
const socketFile = "control.sock"

// pathMax is what Linux allows for the path of a socket, in bytes.
const pathMax = 107

// orderMax bounds an order: a verb and a few names.
const orderMax = 64 << 10 // bytes

// statusTimeout bounds a look at the system, which itself gives what it asks 2 s: only
// an owner that is stopped takes as long.
const statusTimeout = 15 * time.Second

// ErrNotRunning says that no system runs in the folder.
var ErrNotRunning = errors.New("nothing is running")

var errSilent = fmt.Errorf("its owner has not answered for %v: was it stopped by Ctrl-Z?", statusTimeout)

// System is what is controlled. Its methods are safe for concurrent use.
type System interface {
	Status(ctx context.Context) stack.Status
	// Do carries out an order and says what has happened.
	Do(ctx context.Context, order stack.Order) (said string, err error)
}

// Listen makes the socket in a folder.
func Listen(dir string) (net.Listener, error) {
	path := filepath.Join(dir, socketFile)
	if len(path) > pathMax {
		return nil, fmt.Errorf("%s is too long for a socket: want a folder with a shorter path", path)
	}
	return net.Listen("unix", path)
}

// Handler serves a system.
func Handler(system System) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		// An error here is the connection's; nobody is left to tell.
		_ = json.NewEncoder(w).Encode(system.Status(r.Context()))
	})
	mux.HandleFunc("POST /order", func(w http.ResponseWriter, r *http.Request) {
		var order stack.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, orderMax)).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		said, err := system.Do(r.Context(), order)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		fmt.Fprintln(w, said)
	})
	return mux
}

// Client speaks to the system that runs in a folder. Its methods return
// ErrNotRunning if none does.
type Client struct {
	http http.Client
	dir  string
}

// NewClient returns a client; it connects with each call.
func NewClient(dir string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, socketFile))
	}
	return &Client{dir: dir, http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Status asks how the system is. An owner that does not answer within 15 s is an error.
func (c *Client) Status(ctx context.Context) (stack.Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, statusTimeout, errSilent)
	defer cancel()
	var status stack.Status
	text, err := c.call(ctx, http.MethodGet, "/status", nil)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		return status, err
	}
	return status, json.Unmarshal(text, &status)
}

// Do has an order carried out and returns what the system says. What it refuses is
// an error in its words.
func (c *Client) Do(ctx context.Context, order stack.Order) (string, error) {
	body, err := json.Marshal(order)
	if err != nil {
		return "", err
	}
	text, err := c.call(ctx, http.MethodPost, "/order", body)
	return string(text), err
}

func (c *Client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://dev"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return nil, fmt.Errorf("%w in %s (%w)", ErrNotRunning, c.dir, dial.Err)
	}
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(strings.TrimSpace(string(text)))
	}
	return text, nil
}
