package redisbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store/rediscluster"
)

// bare sends the calls that Take makes, by EVALSHA, in pipelines: on each
// connection so many at once that all together are in flight, and the next ones
// when all of these were answered, as redis-benchmark -P does.
func (b *bench) bare(ctx context.Context, rules []*limit.Rule, connections int) (func(context.Context, time.Duration) (int64, error), error) {
	commands := make([][]byte, len(b.subjects))
	for i, subject := range b.subjects {
		ask := askOf(subject, rules)
		script, keys, args, err := rediscluster.Command(&ask)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			b.sha, err = b.node.Do(ctx, "SCRIPT", "LOAD", script).ToString()
			if err != nil {
				return nil, err
			}
		}
		commands[i] = encode("EVALSHA", b.sha, strconv.Itoa(len(keys)), keys[0], args[0])
	}
	pipeline := max(1, b.InFlight/connections)
	return func(ctx context.Context, length time.Duration) (int64, error) {
		group, within := errgroup.WithContext(ctx)
		calls := make([]int, connections)
		begin := time.Now()
		for c := range connections {
			group.Go(func() (err error) {
				calls[c], err = pipe(within, b.node.Address(), commands[c*len(commands)/connections:], pipeline, begin.Add(length))
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return 0, err
		}
		var sum int64
		for _, n := range calls {
			sum += int64(n)
		}
		return sum, nil
	}, nil
}

// library is bare by the client library that the store uses, in goroutines that have
// nothing else to do: what the store could reach if it did nothing itself.
func (b *bench) library(rules []*limit.Rule, goroutines int) (func(context.Context, time.Duration) (int64, error), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{b.node.Address()}, DisableCache: true, DisableRetry: true, AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	if err != nil {
		return nil, err
	}
	b.closers = append(b.closers, client.Close)
	type command struct{ keys, args []string }
	commands := make([]command, len(b.subjects))
	for i, subject := range b.subjects {
		ask := askOf(subject, rules)
		_, keys, args, err := rediscluster.Command(&ask)
		if err != nil {
			return nil, err
		}
		commands[i] = command{keys, args}
	}
	pipeline := max(1, b.InFlight/goroutines)
	return func(ctx context.Context, length time.Duration) (int64, error) {
		group, within := errgroup.WithContext(ctx)
		var calls atomic.Int64
		until := time.Now().Add(length)
		for g := range goroutines {
			group.Go(func() error {
				batch := make([]rueidis.Completed, pipeline)
				for next := g * len(commands) / goroutines; time.Now().Before(until); calls.Add(int64(pipeline)) {
					for i := range batch {
						c := &commands[next%len(commands)]
						next++
						batch[i] = client.B().Evalsha().Sha1(b.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
					}
					for _, reply := range client.DoMulti(within, batch...) {
						if err := reply.Error(); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		err := group.Wait()
		return calls.Load(), err
	}, nil
}

// pipe sends commands in turn on a connection until a time, and returns how many
// were answered.
func pipe(ctx context.Context, address string, commands [][]byte, pipeline int, until time.Time) (calls int, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(until.Add(fillTimeout)); err != nil {
		return 0, err
	}
	replies := bufio.NewReaderSize(conn, 64<<10)
	var batch []byte
	for next := 0; time.Now().Before(until); calls += pipeline {
		batch = batch[:0]
		for range pipeline {
			batch = append(batch, commands[next%len(commands)]...)
			next++
		}
		if _, err := conn.Write(batch); err != nil {
			return calls, err
		}
		for range pipeline {
			if err := skip(replies); err != nil {
				return calls, err
			}
		}
	}
	return calls, nil
}

// encode writes a command as the protocol has it.
func encode(args ...string) []byte {
	out := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		out = fmt.Appendf(out, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return out
}

// skip reads one reply, which has to be a text.
func skip(replies *bufio.Reader) error {
	line, err := replies.ReadSlice('\n')
	if err != nil {
		return err
	}
	if line[0] != '$' {
		return errors.New(string(bytes.TrimSpace(line)))
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, replies, int64(n)+2)
	return err
}
