package loadgen

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// shot is one request of the plan.
type shot struct {
	due time.Duration // intended send time, since the start of the run
	key string
}

// attack sends one stream. vegeta calls Pace from one goroutine and aim from
// its workers; take is called by the goroutine that reads the results.
type attack struct {
	cfg      *Config
	stream   *Stream
	start    time.Time
	done     <-chan struct{} // closed: send nothing more
	arrivals arrivals
	timer    *time.Timer
	unsent   int64 // due within the duration, given up; for Pace, and after the end

	// due hands the intended time from the pacer to the worker it wakes. It
	// has room for one per worker, so that the pacer never waits for it.
	due chan time.Duration

	mu     sync.Mutex
	pick   pick
	serial uint64
	flying map[uint64]shot // by serial; at most one per worker
}

func newAttack(ctx context.Context, cfg *Config, number int, start time.Time) *attack {
	s := &cfg.Streams[number]
	return &attack{
		cfg: cfg, stream: s, start: start, done: ctx.Done(),
		// Arrivals and keys have sources of their own: another distribution of
		// keys leaves the times of a seed as they were.
		arrivals: newArrivals(cfg, s.Rate, rand.New(rand.NewPCG(cfg.Seed, uint64(2*number)))),
		pick:     newPick(cfg, rand.New(rand.NewPCG(cfg.Seed, uint64(2*number+1)))),
		timer:    time.NewTimer(0),
		due:      make(chan time.Duration, cfg.Workers+1),
		flying:   make(map[uint64]shot),
	}
}

// run sends the plan and hands each result to record, one at a time. It returns
// when every reply is in.
func (a *attack) run(client *http.Client, record func(shot, *vegeta.Result)) {
	attacker := vegeta.NewAttacker(
		vegeta.Client(client),
		vegeta.Workers(uint64(min(a.cfg.Workers, vegeta.DefaultWorkers))),
		vegeta.MaxWorkers(uint64(a.cfg.Workers)),
		vegeta.MaxBody(0),
	)
	for result := range attacker.Attack(a.aim, a, 0, "") {
		record(a.take(result), result)
	}
}

// Pace waits for the next intended send time and returns; vegeta then wakes a
// worker. It waits here, not in vegeta, so that an interrupt ends the wait. The
// elapsed time it is given is not used: all streams share one start.
func (a *attack) Pace(time.Duration, uint64) (wait time.Duration, stop bool) {
	due := a.arrivals()
	if due >= a.cfg.Duration {
		return 0, true
	}
	if time.Since(a.start) > a.cfg.Duration+a.cfg.Timeout {
		for ; due < a.cfg.Duration; due = a.arrivals() {
			a.unsent++
		}
		return 0, true
	}
	a.timer.Reset(due - time.Since(a.start))
	select {
	case <-a.done:
		return 0, true
	case <-a.timer.C:
	}
	a.due <- due
	return 0, false
}

// Rate is what vegeta.Pacer asks for; only its plots use it.
func (a *attack) Rate(time.Duration) float64 { return float64(a.stream.Rate) }

// aim makes the next request. Its serial number travels as the URL's fragment,
// which HTTP does not send: the URL is all that vegeta gives back.
func (a *attack) aim(target *vegeta.Target) error {
	due := <-a.due
	a.mu.Lock()
	a.serial++
	serial := a.serial
	key := keyName(a.cfg, a.stream.Key, a.pick())
	a.flying[serial] = shot{due: due, key: key}
	a.mu.Unlock()

	target.Method = a.stream.Method
	target.URL = strings.TrimSuffix(a.cfg.Target, "/") + a.stream.Path + "#" + strconv.FormatUint(serial, 10)
	if key != "" {
		target.Header = http.Header{textproto.CanonicalMIMEHeaderKey(a.cfg.KeyHeader): {key}}
	}
	return nil
}

// take returns the shot that the result belongs to.
func (a *attack) take(result *vegeta.Result) shot {
	_, fragment, _ := strings.Cut(result.URL, "#")
	serial, _ := strconv.ParseUint(fragment, 10, 64) // aim wrote it
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.flying[serial]
	delete(a.flying, serial)
	return s
}

// inFlight counts the requests that were sent and have no reply yet.
func (a *attack) inFlight() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.flying)
}
