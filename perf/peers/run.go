package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/shiplane/limits/libs/testenv"
)

// scenario is one load, and what an answer to it is.
type scenario struct {
	name    string
	keys    int
	rules   []string
	refuses bool // all calls but a few are refused; else none is
	all     []contestant
}

func (c *command) scenarios(f *fleet) []scenario {
	var (
		ours       = contestant{"checker, Envoy's protocol", f.checker, envoyProtocol}
		native     = contestant{"checker, its own contract", f.checker, checkProtocol}
		theirs     = contestant{"envoyproxy/ratelimit", f.ratelimit, envoyProtocol}
		cached     = contestant{"envoyproxy/ratelimit, local cache", f.cached, envoyProtocol}
		gubernator = contestant{"gubernator, in its own memory", f.gubernator, gubernatorProtocol}
	)
	plain := []contestant{ours, native, theirs, gubernator}
	return []scenario{
		{name: "many keys, 1 limit", keys: c.Keys, rules: []string{ample}, all: plain},
		{name: "many keys, 2 limits", keys: c.Keys, rules: []string{ample, wide}, all: plain},
		{name: "one hot key, 1 limit", keys: 1, rules: []string{ample}, all: plain},
		{name: "one key over its limit", keys: 1, rules: []string{scarce}, refuses: true, all: []contestant{ours, native, theirs, cached, gubernator}},
	}
}

func (c *command) run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "shiplane-peers-")
	if err != nil {
		return err
	}
	redis, err := testenv.StartRedis(ctx, testenv.RedisConfig{})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	var f fleet
	defer func() {
		for _, s := range f.all() {
			if s != nil {
				s.close()
			}
		}
		err = errors.Join(err, redis.Close(), os.RemoveAll(dir))
	}()
	node := redis.Nodes()[0]
	if err := f.start(ctx, c, dir, node.Address()); err != nil {
		return err
	}
	for _, s := range c.scenarios(&f) {
		if err := c.play(ctx, out, &s, node.PID()); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// turn is what a contestant did in one slice.
type turn struct {
	perSecond      float64
	service, redis time.Duration // of processor time a decision
}

// play lets the contestants have their turns and prints the table.
func (c *command) play(ctx context.Context, out io.Writer, s *scenario, redis int) error {
	loads := make([]*load, len(s.all))
	for i, one := range s.all {
		l, err := c.load(s, one)
		if err == nil {
			err = one.await(ctx, l.messages[0])
		}
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		loads[i] = l
	}
	turns := make([][]turn, len(s.all))
	for round := range c.Turns + 1 {
		for i, one := range s.all {
			t, err := c.turn(ctx, s, one, loads[i], redis)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			if round > 0 {
				turns[i] = append(turns[i], t)
			}
		}
	}
	return report(out, s, turns)
}

func (c *command) load(s *scenario, one contestant) (*load, error) {
	l := &load{address: one.grpc, method: one.method, read: one.read, connections: c.Connections, inFlight: c.InFlight}
	for i := range s.keys {
		m, err := one.message("acct-"+strconv.Itoa(i), s.rules)
		if err != nil {
			return nil, err
		}
		if len(m) > messageMax {
			return nil, fmt.Errorf("a message has %d bytes: want at most %d", len(m), messageMax)
		}
		l.messages = append(l.messages, m)
	}
	return l, nil
}

// await calls by a client that says what is wrong, until it has a decision. The
// messages are of a type without fields, which keeps those that it does not know.
func (one *contestant) await(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	conn, err := grpc.NewClient(one.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	var request emptypb.Empty
	if err := proto.Unmarshal(message, &request); err != nil {
		return err
	}
	for {
		var answer emptypb.Empty
		if err := conn.Invoke(ctx, one.method, &request, &answer); err != nil {
			return err
		}
		said := answer.ProtoReflect().GetUnknown()
		if one.read(said) != failed {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it answers %q: %w", said, ctx.Err())
		case <-time.After(readyPoll):
		}
	}
}

// turn lets a contestant answer for a slice, and checks that it answers as it should.
func (c *command) turn(ctx context.Context, s *scenario, one contestant, l *load, redis int) (t turn, err error) {
	pids := [...]int{one.process.PID(), redis}
	var before, used [len(pids)]time.Duration
	for i, pid := range pids {
		if before[i], err = processorTime(pid); err != nil {
			return t, err
		}
	}
	begin := time.Now()
	counted, err := l.run(ctx, c.Slice)
	took := time.Since(begin)
	if err != nil {
		return t, err
	}
	for i, pid := range pids {
		now, err := processorTime(pid)
		if err != nil {
			return t, err
		}
		used[i] = now - before[i]
	}
	n := counted.answered()
	if n == 0 || counted.failed > 0 {
		return t, fmt.Errorf("answered %d calls and failed %d: want none to fail", n, counted.failed)
	}
	if wrong := s.wrong(counted, took); wrong != nil {
		return t, wrong
	}
	return turn{perSecond: float64(n) / took.Seconds(), service: used[0] / time.Duration(n), redis: used[1] / time.Duration(n)}, nil
}

// wrong reports answers that are not what the scenario is about.
func (s *scenario) wrong(counted tally, took time.Duration) error {
	if !s.refuses && counted.refused > 0 {
		return fmt.Errorf("refused %d of %d calls: want none", counted.refused, counted.answered())
	}
	// A window lets through its limit at its beginning and at its end, a bucket its
	// burst beside its rate.
	if most := int64(float64(rates[scarce]) * (took.Seconds() + 2)); s.refuses && counted.admitted > most {
		return fmt.Errorf("admitted %d of %d calls in %v: want at most %d", counted.admitted, counted.answered(), took, most)
	}
	return nil
}
