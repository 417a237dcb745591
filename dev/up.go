package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shiplane/limits/dev/internal/control"
	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/dev/internal/statedir"
	"github.com/shiplane/limits/dev/internal/upstream"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/testenv"
)

const (
	// startTimeout bounds a start: a hundred servers on two cores take a minute.
	startTimeout = 5 * time.Minute
	// answerTimeout is what an order in flight has to be answered at the end.
	answerTimeout = time.Second
	// headerTimeout bounds how slowly a request may begin.
	headerTimeout = 10 * time.Second
)

// run starts the system, here or behind, or says what is running.
func (c *upCommand) run(ctx context.Context, args []string, dir string, stdout io.Writer) error {
	cfg, err := c.config(dir)
	if err != nil {
		return serve.Usage(err)
	}
	if c.Detach && !c.Detached {
		return detach(ctx, args, dir, stdout)
	}
	ready := func() error { return nil }
	if c.Detached {
		ready = func() error { return goBehind(dir) }
	}
	ctx, stop := untilHangup(ctx)
	defer stop()
	err = own(ctx, cfg, stdout, ready)
	if errors.Is(err, statedir.ErrRunning) {
		return sayRunning(ctx, dir, stdout)
	}
	return err
}

// untilHangup returns a context that ends when the terminal is closed, too, and keeps
// a reader of the output that is gone (make dev | tee, and Ctrl-C) from ending this
// process out of order: both would leave the folder.
func untilHangup(ctx context.Context) (until context.Context, stop context.CancelFunc) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, unix.SIGPIPE) // not ignored: the processes that this one starts would inherit that
	if signal.Ignored(unix.SIGHUP) {    // by nohup
		return ctx, func() { signal.Stop(broken) }
	}
	until, hungUp := signal.NotifyContext(ctx, unix.SIGHUP)
	return until, func() { hungUp(); signal.Stop(broken) }
}

// sayRunning tells of the system that runs already.
func sayRunning(ctx context.Context, dir string, stdout io.Writer) error {
	status, err := control.NewClient(dir).Status(ctx)
	if err != nil {
		return fmt.Errorf("%w, and does not answer: %w", statedir.ErrRunning, err)
	}
	fmt.Fprintf(stdout, "It is running already, since %s.\n", status.Since.Format(time.DateTime))
	if status.Took == 0 {
		fmt.Fprintln(stdout, "It is not ready yet.")
		return nil
	}
	welcome(stdout, &status)
	return nil
}

// own owns a system until ctx ends, or somebody orders it to end; ready is called
// once it is up.
func own(ctx context.Context, cfg stack.Config, stdout io.Writer, ready func() error) (err error) {
	dir, err := statedir.Open(cfg.Dir, clearEntry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Remove()) }()
	out := &lines{to: stdout}
	s := stack.New(cfg, out.say)
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listener, err := control.Listen(cfg.Dir)
	if err != nil {
		return serve.Usage(err)
	}
	server := &http.Server{
		Handler: control.Handler(&owned{s, cancel}), ReadHeaderTimeout: headerTimeout,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	go server.Serve(listener) //nolint:errcheck // it ends with Shutdown
	defer shutDown(server)

	starting, stop := context.WithTimeout(ctx, startTimeout)
	defer stop()
	if err := s.Start(starting); err != nil {
		if ctx.Err() != nil { // asked to end
			out.say("ended before it was ready")
			return nil
		}
		return err
	}
	status := s.Status(ctx)
	welcome(stdout, &status)
	if err := ready(); err != nil {
		return err
	}
	<-ctx.Done()
	out.say("ending all")
	return nil
}

// shutDown lets orders in flight be answered, for a moment.
func shutDown(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		server.Close()
	}
}

// owned is a stack that can be ordered to end.
type owned struct {
	*stack.Stack

	end context.CancelFunc
}

// Do implements control.System.
func (o *owned) Do(ctx context.Context, order stack.Order) (string, error) {
	if order.Verb == stack.Down {
		o.end()
		return "ending all", nil
	}
	return o.Stack.Do(ctx, order)
}

// lines prints lines of several goroutines.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) say(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.to, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
}

// clearEntry removes what a killed owner has left.
func clearEntry(entry string) error {
	if info, err := os.Lstat(entry); err == nil && info.IsDir() {
		return testenv.RemoveLeft(entry)
	}
	return os.Remove(entry)
}

// upstreamCommand serves the API behind the gateways.
type upstreamCommand struct {
	Listen string `env:"-" required:"" placeholder:"HOST:PORT" help:"Address to serve on."`
}

func (c *upstreamCommand) run(ctx context.Context, stderr io.Writer) error {
	process := serve.New(serve.Config{Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	defer process.Close()
	if _, err := process.ServeEndpoint(serve.Endpoint{Flag: "--listen", Address: c.Listen, Handler: upstream.Handler()}); err != nil {
		return err
	}
	return process.Run(ctx, func() {})
}
