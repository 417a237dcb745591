package stack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shiplane/limits/libs/testenv/process"
)

const (
	// readyTimeout bounds the start of a service on a machine that is busy with all
	// the others.
	readyTimeout = time.Minute
	// readyAnswer is what a service has to say whether it is ready.
	readyAnswer = time.Second
	// readyLook is the time between two looks at whether a service is ready.
	readyLook = 20 * time.Millisecond
	// stopTimeout is what a service has to end by itself: it drains at once, for
	// nobody waits for its answers.
	stopTimeout = 5 * time.Second
	// logLines is how much of a log stands in an error.
	logLines = 15
)

// service is a process of one of our programs. Its methods are safe for concurrent
// use.
type service struct {
	name, kind, region string
	api, admin         string // HOST:PORT; admin is "" for none
	dir                string
	args               []string

	mu      sync.Mutex
	process *process.Process // nil until started
	frozen  bool
	told    *process.Process // to end: the last one that was
}

func newService(c *Config, name, kind, region, api, admin string, args []string) *service {
	return &service{name: name, kind: kind, region: region, api: api, admin: admin, dir: c.file(name), args: args}
}

func (s *service) log() string { return s.dir + "/" + s.name + ".log" }

// restart starts the process again, killing it first if it has not ended, and
// waits until it is ready for requests.
func (s *service) restart(ctx context.Context) error {
	s.kill()
	if err := os.MkdirAll(s.dir+"/state", 0o700); err != nil {
		return err
	}
	p, err := process.Start(process.Config{Args: s.args, Dir: s.dir, Env: environment(), Log: s.log()})
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.awaitReady(ctx, p); err != nil {
		return fmt.Errorf("%s: %w; the end of %s:\n%s", s.name, err, s.log(), process.Tail(s.log(), logLines))
	}
	return nil
}

// environment is this process's without the variables that stand for flags: they
// are meant for one service that is started by hand.
func environment() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SHIPLANE_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

func (s *service) awaitReady(ctx context.Context, p *process.Process) error {
	url := "http://" + s.admin + "/readyz"
	if s.admin == "" {
		url = "http://" + s.api + "/"
	}
	tick := time.NewTicker(readyLook)
	defer tick.Stop()
	for {
		err := answersOK(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("has ended: %w", errors.Join(p.Err(), err))
		case <-ctx.Done():
			return fmt.Errorf("is not ready: %w", err)
		case <-tick.C:
		}
	}
}

// newClient returns a client that closes what it opens at once. With connections kept,
// two questions at a time leave one that nothing was asked on, and a service that
// ends waits 5 s for its first request: as long as stopTimeout.
func newClient(timeout time.Duration) http.Client {
	return http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}
}

func answersOK(ctx context.Context, url string) error {
	client := newClient(readyAnswer)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

func (s *service) current() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

func (s *service) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = s.process
	if s.process != nil {
		s.process.Kill()
	}
	s.frozen = false
}

// stop ends the process by SIGTERM, as a rollout does, or by SIGKILL if it is
// frozen or takes too long.
func (s *service) stop() error {
	s.mu.Lock()
	s.told = s.process
	p, frozen := s.process, s.frozen
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	if frozen {
		p.Kill()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return p.Stop(ctx, syscall.SIGTERM)
}

func (s *service) freeze() error { return s.setFrozen((*process.Process).Freeze, true) }

func (s *service) thaw() error { return s.setFrozen((*process.Process).Thaw, false) }

func (s *service) setFrozen(set func(*process.Process) error, frozen bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil || !s.process.Running() {
		return errDead
	}
	if err := set(s.process); err != nil {
		return err
	}
	s.frozen = frozen
	return nil
}

func (s *service) status() PartStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := PartStatus{Name: s.name, Kind: s.kind, Region: s.region, Address: s.api, Admin: s.admin, Log: s.log(), State: Dead}
	if s.process == nil {
		return status
	}
	status.PID = s.process.PID()
	switch {
	case !s.process.Running():
	case s.frozen:
		status.State = Frozen
	default:
		status.State = Running
	}
	return status
}

// watch calls died if the process ends without having been told to.
func (s *service) watch(ctx context.Context, died func(name string, err error)) {
	p := s.current()
	select {
	case <-ctx.Done():
		return
	case <-p.Done():
	}
	s.mu.Lock()
	told := s.told == p
	s.mu.Unlock()
	if !told {
		died(s.name, p.Err())
	}
}
