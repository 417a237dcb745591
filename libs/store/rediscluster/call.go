package rediscluster

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// answer is how a call ended.
type answer struct {
	reply string
	err   error
}

// await returns the answer, or after timeout, or when ctx ends, that there was
// none. A call is carried by a goroutine of its own because the client does not
// always heed a deadline: it waits for a connection that another call makes, and
// for room in its queue.
func await(ctx context.Context, timeout time.Duration, answers <-chan answer) answer {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	none := answer{err: context.DeadlineExceeded}
	select {
	case a := <-answers:
		return a
	case <-timer.C:
	case <-ctx.Done():
		none.err = context.Canceled // the caller's deadline too: it says nothing of the shard
	}
	select {
	case a := <-answers: // both were there: this process was late to look
		return a
	default:
		return none
	}
}

// run sends the script by its name, and by its text where the node does not
// know it or the slot is on its way to another node, for then nothing was executed.
func run(ctx inTime, client rueidis.Client, command rueidis.Completed, script *script, keys, args []string) (a answer) {
	a.reply, a.err = client.Do(ctx, command).ToString()
	for ctx.Err() == nil {
		switch classify(a.err) {
		case classTryAgain:
			<-time.After(tryAgainPause)
		case classNoScript:
		default:
			return a
		}
		whole := client.B().Eval().Script(script.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
		a.reply, a.err = client.Do(ctx, whole).ToString()
	}
	return a
}

// inTime is the context of a call on the wire: it refuses what has not been sent
// by its deadline, so that nothing is charged for a caller that has given up, and
// ends nothing before. It has no Done on purpose. A connection, once begun, is
// made for the calls to come, however hurried this one was; and a call that was
// sent keeps its place in the client until its reply comes or its connection is
// closed, and is counted in flight for as long.
type inTime struct {
	context.Context // for its values

	deadline time.Time
}

// Err returns context.DeadlineExceeded after the deadline.
func (c inTime) Err() error {
	if time.Now().After(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
