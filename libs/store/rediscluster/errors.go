package rediscluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
)

// errPassword says that no connection was made because the password cannot be read.
var errPassword = errors.New("the store's password")

// class is what kind of failure a call met: a small closed set, for metrics.
type class string

const (
	classNone        class = "ok"
	classTimeout     class = "timeout"     // asked, no reply in time: nothing is known
	classRefused     class = "refused"     // nobody listens, or no connection was ever made
	classConnection  class = "connection"  // broken or closed: nothing is known
	classMoved       class = "moved"       // redirected more often than is followed
	classCancelled   class = "cancelled"   // the caller gave up before the timeout: nothing is known
	classNoScript    class = "noscript"    // the node's cache lacks the script: loaded, once
	classTryAgain    class = "tryagain"    // a slot is on its way to another node: nothing was executed
	classReadOnly    class = "readonly"    // asked a replica: a failover that we have not seen
	classLoading     class = "loading"     // the node reads its data
	classClusterDown class = "clusterdown" // the slot has no owner
	classMasterDown  class = "masterdown"
	classBusy        class = "busy"     // another script runs for ever
	classOOM         class = "oom"      // the memory is full and nothing may be evicted
	classAuth        class = "auth"     // the password has changed
	classBug         class = "bug"      // anything else that the server says
	classOverload    class = "overload" // too many calls of this pod are in flight
	classOpen        class = "open"     // the breaker let no call through
)

// prefixes are how a server's errors begin.
var prefixes = []struct {
	prefix string
	class  class
}{
	{"NOSCRIPT", classNoScript}, {"TRYAGAIN", classTryAgain}, {"READONLY", classReadOnly}, {"LOADING", classLoading},
	{"CLUSTERDOWN", classClusterDown}, {"MASTERDOWN", classMasterDown}, {"BUSY", classBusy}, {"OOM", classOOM},
	{"NOAUTH", classAuth}, {"WRONGPASS", classAuth}, {"NOPERM", classAuth}, {"MOVED", classMoved}, {"ASK", classMoved},
}

// classify says what class a call's error is of.
func classify(err error) class {
	if err == nil {
		return classNone
	}
	if said, ok := rueidis.IsRedisErr(err); ok {
		text := said.Error()
		for _, p := range prefixes {
			// A script's own error wraps that of the command in it.
			if strings.HasPrefix(text, p.prefix) || strings.HasPrefix(text, "ERR "+p.prefix) {
				return p.class
			}
		}
		return classBug
	}
	switch {
	case errors.Is(err, context.Canceled):
		return classCancelled
	case errors.Is(err, context.DeadlineExceeded):
		return classTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return classRefused
	case errors.Is(err, errPassword):
		return classAuth
	}
	return classConnection
}

// outcome is what a class tells of the shard.
func (c class) outcome() breaker.Outcome {
	switch c {
	case classNone, classBug, classNoScript:
		return breaker.Replied
	case classTimeout:
		return breaker.TimedOut
	case classConnection, classMoved, classTryAgain:
		return breaker.Failed
	case classOverload, classOpen, classCancelled:
		return breaker.Unjudged
	}
	return breaker.Unreachable
}

// wrap makes the error that Take returns: it wraps the store's sentinel and
// names the shard.
func (c class) wrap(shard string, err error) error {
	sentinel := store.ErrUnavailable
	if c == classTimeout || c == classConnection || c == classCancelled {
		sentinel = store.ErrTimeout
	}
	if err == nil {
		return fmt.Errorf("shard %s: %w: %s", shard, sentinel, c)
	}
	return fmt.Errorf("shard %s: %w: %s: %w", shard, sentinel, c, err)
}
