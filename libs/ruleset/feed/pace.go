package feed

import (
	"math/rand/v2"
	"time"
)

// The pace of attempts to watch. A fleet of pods that has lost its service must not
// fall on the instances that are left, nor on the first one that comes back: each
// wait is drawn evenly from 0 to a bound that doubles from waitFirst to waitMax, and
// is shared by the addresses where there are several: each of them is tried as often
// as if it were the only one, however many of the others are gone.
const (
	waitFirst = 200 * time.Millisecond
	// waitMax keeps the return of an instance within 5 s for every pod. 150 pods
	// then make 75 attempts a second at an address while it is away.
	waitMax = 4 * time.Second
	// steady is how long a watch has to last for the next one to be the first again.
	// One that is cut sooner, again and again, is paced as if it had failed.
	steady = 10 * time.Second
)

// pace decides which address is tried when. One goroutine uses it.
type pace struct {
	order    []int // of addresses: drawn, so that the pods of a dead one spread over the others
	at       int   // in order
	failures int   // in a row
}

func newPace(addresses int) *pace { return &pace{order: rand.Perm(addresses)} }

// address returns the index of the address to try now.
func (p *pace) address() int { return p.order[p.at] }

// ended notes that an attempt has ended, after some time, and returns how long to
// wait before the next one, at another address if there is one.
func (p *pace) ended(after time.Duration) time.Duration {
	p.at = (p.at + 1) % len(p.order)
	if after >= steady {
		p.failures = 0
	}
	most := waitMax
	if rounds := p.failures / len(p.order); rounds < 5 { // 200 ms · 2^5 is above waitMax
		most = min(waitFirst<<rounds, waitMax)
	}
	p.failures++
	return rand.N(most / time.Duration(len(p.order)))
}
