package stack

import (
	"context"
	"errors"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/tcpproxy"
)

// State is how a part is.
type State string

// What a part can be.
const (
	Running State = "running"
	Frozen  State = "frozen"
	Dead    State = "dead"
)

// errDead says that something can be done to living processes only.
var errDead = errors.New("it is dead: restart it first")

// part is a process that faults are done to by its name. Its methods are safe for
// concurrent use.
type part interface {
	status() PartStatus
	kill()
	freeze() error
	thaw() error
	// restart starts the part again, killing it first if it is not dead, and waits
	// until it answers.
	restart(ctx context.Context) error
}

// node is a part that is a Redis server.
type node struct {
	*testenv.Node

	name, region string
}

func (n node) kill()                             { n.Kill() }
func (n node) restart(ctx context.Context) error { return n.Restart(ctx) }

func (n node) freeze() error {
	if n.status().State == Dead {
		return errDead
	}
	return n.Freeze()
}

func (n node) thaw() error {
	if n.status().State == Dead {
		return errDead
	}
	return n.Thaw()
}

func (n node) status() PartStatus {
	status := PartStatus{Name: n.name, Kind: KindRedis, Region: n.region, Address: n.Address(), Log: n.Log(), PID: n.PID(), State: Dead}
	switch {
	case n.Running():
		status.State = Running
	case n.Frozen():
		status.State = Frozen
	}
	return status
}

// database is the part that is Postgres. It has children, which a signal does not
// stop; so it is frozen by its wire: connections stay open and nothing passes.
type database struct {
	*testenv.Postgres

	region string
}

func (d database) kill() { d.Kill() }

func (d database) restart(ctx context.Context) error {
	return errors.Join(d.Proxy().Set(tcpproxy.Faults{}), d.Restart(ctx))
}

func (d database) freeze() error { return d.silence(true) }
func (d database) thaw() error   { return d.silence(false) }

func (d database) silence(silent bool) error {
	if !d.Running() {
		return errDead
	}
	return d.Proxy().Set(tcpproxy.Faults{Silent: silent})
}

func (d database) status() PartStatus {
	status := PartStatus{Name: "postgres", Kind: KindPostgres, Region: d.region, Address: d.Address(), Log: d.Log(), PID: d.PID(), State: Dead}
	switch {
	case !d.Running():
	case d.Proxy().Faults().Silent:
		status.State = Frozen
	default:
		status.State = Running
	}
	return status
}
