package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/lanes"
)

// batchMax bounds the calls of a batch, which are answered together: they take the
// server less than half a millisecond.
const batchMax = 32

// tryAgainPause is the time until a slot on its way to another node is asked again.
const tryAgainPause = 500 * time.Microsecond

// call is a script on its way to a shard.
type call struct {
	lanes.Seat
	lanes.Waiter[answer]

	shard      *shard
	command    rueidis.Completed // runs the script by its name
	script     *script
	keys, args []string  // their memory is used again
	deadline   time.Time // it is not sent after this
}

// answer is how a call ended.
type answer struct {
	reply string
	err   error
}

func newCall() *call { return &call{Waiter: lanes.NewWaiter[answer]()} }

// pack makes the keys and arguments of an ask. driven is the scripts' clock where a test
// drives it.
func (c *call) pack(ask *store.Ask, order []int, sh shape, driven func() time.Duration) {
	text := make([]byte, 0, keyBytes+len(order)*entryBytes)
	text = appendKey(text, ask.Subject)
	end := len(text)
	text = appendEntries(text, ask, order, sh.gives)
	both := rueidis.BinaryString(text)
	key := both[:end]
	if c.script.record {
		c.keys = append(c.keys, key)
	}
	for _, i := range order {
		if r := ask.Entries[i].Rule; kindOf(r) == kindLog {
			c.keys = append(c.keys, logKey(key, r.ID))
		}
	}
	c.args = append(c.args, both[end:])
	if driven != nil {
		c.args = append(c.args, fmt.Sprint(int64(driven()/time.Microsecond)))
	}
}

// do sends the call and returns its answer, or after timeout, or when ctx ends, that
// there was none. It waits here, for the client does not always heed a deadline: it
// waits for a connection that another call makes, and for room in its queue. Again: the
// call is nobody's any more, and can be made anew.
func (c *call) do(ctx context.Context, timeout time.Duration) (a answer, again bool) {
	c.shard.lanes.Submit(c)
	a, again, err := c.Wait(ctx, timeout)
	if err != nil {
		a.err = err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		c.shard.lanes.Overdue(c)
	}
	return a, again
}

// reset forgets what was called.
func (c *call) reset() {
	clear(c.keys)
	clear(c.args)
	*c = call{Waiter: c.Waiter, keys: c.keys[:0], args: c.args[:0]}
}

// answered tells the caller, who may have left.
func (c *call) answered(a answer) {
	c.shard.inFlight.Add(-1)
	c.Answer(a)
}

// send sends calls together, and returns when they are answered.
func (s *Store) send(calls []*call) {
	client, now := *s.client.Load(), time.Now()
	sent, commands := calls[:0], make([]rueidis.Completed, 0, batchMax)
	ctx := inTime{context.Background(), now.Add(s.cfg.Timeout)}
	for _, c := range calls {
		if now.After(c.deadline) {
			c.answered(answer{err: context.DeadlineExceeded})
			continue
		}
		sent, commands = append(sent, c), append(commands, c.command)
		if c.deadline.Before(ctx.deadline) {
			ctx.deadline = c.deadline
		}
	}
	switch len(sent) {
	case 0:
	case 1:
		sent[0].settle(client, client.Do(ctx, commands[0]))
	default:
		for i, result := range client.DoMulti(ctx, commands...) {
			sent[i].settle(client, result)
		}
	}
}

// settle answers a call, unless nothing was executed and it can be sent again.
func (c *call) settle(client rueidis.Client, result rueidis.RedisResult) {
	reply, err := result.ToString()
	switch classify(err) {
	case classNoScript, classTryAgain:
		go func() { c.answered(c.again(client, err)) }()
	default:
		c.answered(answer{reply, err})
	}
}

// again sends the script by its text where the node does not know it or the slot is
// on its way to another node, for then nothing was executed.
func (c *call) again(client rueidis.Client, err error) (a answer) {
	a.err = err
	for ctx := (inTime{context.Background(), c.deadline}); ctx.Err() == nil; {
		switch classify(a.err) {
		case classTryAgain:
			<-time.After(tryAgainPause)
		case classNoScript:
		default:
			return a
		}
		whole := client.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
		a.reply, a.err = client.Do(ctx, whole).ToString()
	}
	return a
}

// inTime is the context of calls on the wire: it refuses what has not been sent
// by its deadline, so that nothing is charged for a caller that has given up, and
// ends nothing before. It has no Done on purpose. A connection, once begun, is
// made for the calls to come, however hurried this one was; and a call that was
// sent keeps its place in the client until its reply comes or its connection is
// closed, and is counted in flight for as long.
type inTime struct {
	context.Context // without an end

	deadline time.Time
}

// Err returns context.DeadlineExceeded after the deadline.
func (c inTime) Err() error {
	if time.Now().After(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
