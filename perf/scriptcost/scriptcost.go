// Package scriptcost counts the instructions that a Redis server executes for
// one check, by callgrind: the same count every time, whatever else the machine
// is doing. It holds the script to its budget, beside the script of the design
// document that the project comes from.
package scriptcost

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
)

//go:embed seed.lua
var seed string

const (
	pipeline = 16   // commands sent at once, as a busy pod's connection carries them
	calls    = 1600 // counted of a shape
)

// shape is one call that is measured.
type shape struct {
	name   string
	script string
	keys   []string
	args   []string
	setUp  func(context.Context, rueidis.Client) error
	budget int // instructions; 0: reported only
}

// Line is what one shape costs.
type Line struct {
	Name                 string
	Instructions, Budget int
}

// String is the line of the report.
func (l Line) String() string {
	text := fmt.Sprintf("%-52s %7d instructions a call", l.Name, l.Instructions)
	if l.Budget > 0 {
		text += fmt.Sprintf(", budget %d", l.Budget)
		if l.Instructions > l.Budget {
			text += "  ABOVE"
		}
	}
	return text
}

// Measure starts a server under callgrind in dir and counts each shape.
func Measure(ctx context.Context, dir string) (lines []Line, err error) {
	shapes, err := shapes()
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	for _, sh := range shapes {
		n, err := s.count(ctx, sh)
		if err != nil {
			return lines, fmt.Errorf("%s: %w", sh.name, err)
		}
		lines = append(lines, Line{sh.name, n, sh.budget})
	}
	return lines, nil
}

// server is a redis-server under callgrind, counting nothing until it is told.
type server struct {
	cmd    *exec.Cmd
	dir    string
	client rueidis.Client
	dumps  int
}

func start(ctx context.Context, dir string) (*server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	s.cmd = exec.CommandContext(ctx, "valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file="+filepath.Join(dir, "out"),
		"redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--io-threads", "1")
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("valgrind redis-server: %w", err)
	}
	option := rueidis.ClientOption{InitAddress: []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1}
	for deadline := time.Now().Add(time.Minute); ; {
		if s.client, err = rueidis.NewClient(option); err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(err, s.cmd.Process.Kill(), s.cmd.Wait())
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (s *server) stop() error {
	s.client.Close()
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// count runs a shape's call until the server is warm, then counts.
func (s *server) count(ctx context.Context, sh shape) (int, error) {
	if err := s.client.Do(ctx, s.client.B().Flushall().Build()).Error(); err != nil {
		return 0, err
	}
	sha, err := s.client.Do(ctx, s.client.B().ScriptLoad().Script(sh.script).Build()).ToString()
	if err != nil {
		return 0, err
	}
	if sh.setUp != nil {
		if err := sh.setUp(ctx, s.client); err != nil {
			return 0, err
		}
	}
	if err := s.run(ctx, sh, sha, pipeline*10); err != nil {
		return 0, err
	}
	if err := s.control(ctx, "-i", "on"); err != nil {
		return 0, err
	}
	if err := s.run(ctx, sh, sha, calls); err != nil {
		return 0, err
	}
	if err := s.control(ctx, "-i", "off"); err != nil {
		return 0, err
	}
	total, err := s.dump(ctx)
	return total / calls, err
}

func (s *server) run(ctx context.Context, sh shape, sha string, n int) error {
	for range n / pipeline {
		batch := make(rueidis.Commands, pipeline)
		for i := range batch {
			batch[i] = s.client.B().Evalsha().Sha1(sha).Numkeys(int64(len(sh.keys))).Key(sh.keys...).Arg(sh.args...).Build()
		}
		for _, r := range s.client.DoMulti(ctx, batch...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) control(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "callgrind_control", append(args, strconv.Itoa(s.cmd.Process.Pid))...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("callgrind_control %s: %w: %s", args, err, out)
	}
	return nil
}

// dump writes the counts out, zeroes them and returns their sum.
func (s *server) dump(ctx context.Context) (int, error) {
	if err := s.control(ctx, "-d"); err != nil {
		return 0, err
	}
	s.dumps++
	f, err := os.Open(filepath.Join(s.dir, fmt.Sprint("out.", s.dumps)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if sum, ok := strings.CutPrefix(lines.Text(), "totals: "); ok {
			return strconv.Atoi(sum)
		}
	}
	return 0, errors.New("a dump without totals")
}

func rule(id string, l limit.Limit) *limit.Rule {
	r := &limit.Rule{Domain: "public-api", ID: id, Kind: limit.Account, Algorithm: limit.TokenBucket, Limit: l, Mode: limit.Enforce, FailMode: limit.FailOpen, Counts: limit.CountRequests}
	if l.Window > 0 {
		r.Algorithm = limit.FixedWindow
		if l.Count < 100 {
			r.Algorithm = limit.SlidingLog
		}
	}
	r.Tag = limit.TagOf(r.Domain, r.ID, r.Algorithm)
	return r
}

// call is the shape of an ask of cost 1 for an account's rules.
func call(name string, budget int, rules ...*limit.Rule) (shape, error) {
	subject, err := limit.NewSubject("public-api", limit.Account, "acct_7Q2")
	if err != nil {
		return shape{}, err
	}
	ask := store.Ask{Subject: subject}
	for i, r := range rules {
		ask.Entries = append(ask.Entries, store.Entry{Rule: r, Limit: r.Limit, Need: 1, Want: 1, Member: uint64(i)})
	}
	script, keys, args, err := rediscluster.Command(&ask)
	return shape{name: name, script: script, keys: keys, args: args, budget: budget}, err
}

// shapes are those of the budget, ours and the design document's.
func shapes() ([]shape, error) {
	ample, empty := limit.Limit{Rate: 1e6, Burst: 1e8}, limit.Limit{Rate: 1.0 / 86400, Burst: 1}
	account, route := rule("growth-global", ample), rule("labels-route", ample)
	quota, login := rule("free-daily", limit.Limit{Count: 1e9, Window: 24 * time.Hour}), rule("login-ip", limit.Limit{Count: 5, Window: time.Hour})
	var all []shape
	var errs []error
	add := func(s shape, err error) { all, errs = append(all, s), append(errs, err) }
	add(call("1 bucket, granted", 0, account))
	add(call("2 buckets, granted", 58_000, account, route))
	add(call("2 buckets, refused", 45_000, account, rule("empty", empty)))
	seven, err := call("2 buckets in a record of 7, granted", 92_000, account, route)
	seven.setUp = foreign
	add(seven, err)
	add(call("2 buckets and a quota, granted", 88_000, account, route, quota))
	add(call("a login log of 5, refused", 0, login))
	for keys := 1; keys <= 2; keys++ {
		s := shape{name: fmt.Sprintf("the design document's script, %d bucket(s), granted", keys), script: seed, args: []string{"1", "50"}}
		for i := range keys {
			s.keys = append(s.keys, fmt.Sprintf("rl:{acct_7Q2}:%d", i))
			s.args = append(s.args, "1000000", "100000000", "1")
		}
		add(s, nil)
	}
	refused := shape{name: "the design document's script, 2 buckets, refused", script: seed, keys: []string{"rl:{acct_7Q2}:0", "rl:{acct_7Q2}:1"}, args: []string{"1", "50", "0.001", "1", "1", "0.001", "1", "1"}}
	add(refused, nil)
	return all, errors.Join(errs...)
}

// foreign fills the account's record with five other buckets.
func foreign(ctx context.Context, client rueidis.Client) error {
	var rules []*limit.Rule
	for i := range 5 {
		rules = append(rules, rule(fmt.Sprint("other-", i), limit.Limit{Rate: 0.001, Burst: 1000}))
	}
	s, err := call("", 0, rules...)
	if err != nil {
		return err
	}
	return client.Do(ctx, client.B().Eval().Script(s.script).Numkeys(int64(len(s.keys))).Key(s.keys...).Arg(s.args...).Build()).Error()
}
