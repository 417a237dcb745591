package convergence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/testenv/port"
	"github.com/shiplane/limits/libs/testenv/process"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules"
)

// instanceEnv makes this program an instance of the rules service.
const instanceEnv = "CONVERGENCE_INSTANCE"

const (
	readyPoll = 20 * time.Millisecond
	endWait   = 10 * time.Second
	logLines  = 20
)

// IsInstance reports whether this process was started to be an instance: main then
// has to call RunInstance and nothing else.
func IsInstance() bool { return os.Getenv(instanceEnv) != "" }

// RunInstance is the rules service, by this process's arguments; it returns the
// exit code.
func RunInstance() int { return rules.Main(os.Args[1:], os.Stdout, os.Stderr) }

// instance is a process of the rules service, and how it is edited.
type instance struct {
	cfg        process.Config
	api, admin *port.Port
	rules      rulesv1.RulesServiceClient
	process    *process.Process // nil until started
}

// store is where instances keep their rules.
type store struct{ url, passwordFile string }

// newInstance reserves what an instance needs in dir; start starts it.
func newInstance(dir string, number int, s store) (*instance, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	i := &instance{}
	for _, at := range []**port.Port{&i.api, &i.admin} {
		if *at, err = port.Reserve("127.0.0.1"); err != nil {
			return nil, errors.Join(err, i.close())
		}
	}
	args := []string{program, "--listen", i.api.String(), "--admin", i.admin.String(), "--store", s.url,
		"--admin-token-file", adminToken(dir), "--pod-token-file", podToken(dir)}
	if s.passwordFile != "" {
		args = append(args, "--store-password-file", s.passwordFile)
	}
	i.cfg = process.Config{Args: args, Env: append(os.Environ(), instanceEnv+"=1"), Log: filepath.Join(dir, fmt.Sprintf("rules-%d.log", number))}
	bearer := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
			token, err := os.ReadFile(adminToken(dir))
			if err != nil {
				return nil, err
			}
			q.Header().Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
			return next(ctx, q)
		}
	})
	i.rules = rulesv1.NewRulesServiceClient(http.DefaultClient, i.url(), connect.WithInterceptors(bearer))
	return i, nil
}

func adminToken(dir string) string { return filepath.Join(dir, "admin.token") }
func podToken(dir string) string   { return filepath.Join(dir, "pod.token") }

func (i *instance) url() string { return "http://" + i.api.String() }

// start starts the process and waits until it is ready.
func (i *instance) start(ctx context.Context) error {
	p, err := process.Start(i.cfg)
	if err != nil {
		return err
	}
	i.process = p
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for !i.ready(ctx) {
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("an instance ended: %w; the end of its log:\n%s", p.Err(), process.Tail(i.cfg.Log, logLines))
		case <-ctx.Done():
			return fmt.Errorf("an instance does not get ready: %w; the end of its log:\n%s", ctx.Err(), process.Tail(i.cfg.Log, logLines))
		}
	}
	return nil
}

func (i *instance) ready(ctx context.Context) bool {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+i.admin.String()+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// kill ends the process as a crash does.
func (i *instance) kill() {
	if i.process != nil {
		i.process.Kill()
	}
}

// close ends the process in order and gives its ports back.
func (i *instance) close() error {
	var err error
	if i.process != nil && i.process.Running() {
		ctx, cancel := context.WithTimeout(context.Background(), endWait)
		defer cancel()
		err = i.process.Stop(ctx, syscall.SIGTERM)
	}
	for _, p := range []*port.Port{i.api, i.admin} {
		if p != nil {
			p.Release()
		}
	}
	return err
}
