package exactness

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
)

// Environment variables of a process that hammers: this test's binary again.
const (
	hammerURL  = "EXACTNESS_URL"
	hammerSeed = "EXACTNESS_SEED"
	hammerFor  = "EXACTNESS_FOR"
	hammerLose = "EXACTNESS_LOSE" // one in so many charges is forgotten by the store
)

func TestMain(m *testing.M) {
	if os.Getenv(hammerURL) == "" {
		os.Exit(m.Run())
	}
	if err := hammer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hammer is the process's part: it says that it is ready, waits for a line on
// its standard input, so that all begin at once, and tells what it saw.
func hammer() error {
	seed, err := strconv.ParseUint(os.Getenv(hammerSeed), 10, 64)
	if err != nil {
		return err
	}
	length, err := time.ParseDuration(os.Getenv(hammerFor))
	if err != nil {
		return err
	}
	s, err := connected(os.Getenv(hammerURL))
	if err != nil {
		return err
	}
	defer s.Close()
	var charged store.Store = s
	if lose := os.Getenv(hammerLose); lose != "" {
		if charged, err = newForgetful(s, os.Getenv(hammerURL), lose); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()
	tally, err := Hammer(ctx, charged, goroutines, seed)
	return errors.Join(err, gob.NewEncoder(os.Stdout).Encode(tally))
}

// connected is a store that has answered once, and so knows its cluster.
func connected(url string) (*rediscluster.Store, error) {
	s, err := rediscluster.New(rediscluster.Config{URL: url, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	subject, err := limit.NewSubject("exactness", limit.Account, "nobody")
	if err != nil {
		return nil, err
	}
	ask := store.Ask{Subject: subject, Entries: []store.Entry{entryOf(Bucket{0, 0})}}
	for deadline := time.Now().Add(30 * time.Second); ; {
		var result store.Result
		if err = s.Take(context.Background(), &ask, &result); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("not connected within 30 s: %w", err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// child is a process that hammers.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// start starts a process and waits until it is ready. It ends with the test.
func start(t *testing.T, env ...string) *child {
	t.Helper()
	c := &child{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	c.cmd.Env, c.cmd.Stderr = append(os.Environ(), env...), os.Stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.stdout = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := c.stdout.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("a process said %q, want ready: %v", line, err)
	}
	return c
}

func (c *child) begin(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(c.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
}

// tally waits for the process's end and returns what it saw.
func (c *child) tally(t *testing.T) Tally {
	t.Helper()
	var tally Tally
	if err := errors.Join(gob.NewDecoder(c.stdout).Decode(&tally), c.cmd.Wait()); err != nil {
		t.Fatalf("a process did not tell what it saw: %v", err)
	}
	return tally
}

// forgetful is a store whose server forgets some charges, as a script would that
// forgets to write: the record is put back as it was.
type forgetful struct {
	*rediscluster.Store
	client rueidis.Client
	every  int

	mu    sync.Mutex
	calls int
}

func newForgetful(s *rediscluster.Store, url, every string) (*forgetful, error) {
	n, err := strconv.Atoi(every)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(strings.TrimPrefix(url, "redis://"), ","), DisableCache: true})
	return &forgetful{Store: s, client: client, every: n}, err
}

func (f *forgetful) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	f.mu.Lock()
	f.calls++
	forget := f.calls%f.every == 0
	f.mu.Unlock()
	if !forget {
		return f.Store.Take(ctx, ask, result)
	}
	key := rediscluster.Key(ask.Subject)
	before, err := f.client.Do(ctx, f.client.B().Get().Key(key).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	err = f.Store.Take(ctx, ask, result)
	if err != nil || before == "" {
		return err
	}
	return f.client.Do(ctx, f.client.B().Set().Key(key).Value(before).Keepttl().Build()).Error()
}
