package rediscluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/breaker"
)

// Config is what a Store is made of.
type Config struct {
	// URL is redis://HOST:PORT[,HOST:PORT…], or rediss:// for TLS: any nodes of a
	// cluster, or one server. It holds no password: that is a secret.
	URL      string
	Username string
	Password func() (string, error) // asked for each connection that is made, for it may change; nil: there is none
	TLS      *tls.Config            // for rediss://; nil: the system's roots

	Timeout  time.Duration // of a call; zero: 5 ms
	InFlight int64         // calls in flight a shard, at most; zero: 1024

	Observer Observer     // nil: nobody
	Logger   *slog.Logger // nil: slog.Default
}

// An Observer is told what becomes of calls. Its methods are called on the path
// of requests: they must not block. Safe for concurrent use.
type Observer interface {
	// Call tells of one call: which shard, the class of its error ("ok": none)
	// and how long it took.
	Call(shard, class string, took time.Duration)
	// Breaker tells that a shard's breaker changed its state.
	Breaker(shard string, from, to breaker.State)
	// Clock tells how far a shard's clock was ahead of this pod's when its reply
	// came: too little by the way back. It is told ten times a second at most.
	Clock(shard string, ahead time.Duration)
}

// The defaults of Config.
const (
	DefaultTimeout  = 5 * time.Millisecond
	DefaultInFlight = 1024
)

// Store is a store.Store in Redis. Safe for concurrent use.
type Store struct {
	cfg     Config
	scripts *scripts
	shards  *shards
	client  atomic.Pointer[rueidis.Client]
	start   time.Time
	logged  atomic.Int64 // the second in which a bug was last logged
	ctx     context.Context
	cancel  context.CancelFunc
	done    sync.WaitGroup
	spare   sync.Pool            // of *call that were answered
	reached chan struct{}        // closed: see Reached
	first   sync.Once            // closes it
	demoted chan struct{}        // a server said that it is read only
	driven  func() time.Duration // for tests: the scripts' clock
}

// New makes a store and connects in the background. An error names the field
// of cfg that is wrong; a server that cannot be reached is none.
func New(cfg Config) (*Store, error) { return newStore(cfg, nil) }

func newStore(cfg Config, driven func() time.Duration) (*Store, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.InFlight == 0 {
		cfg.InFlight = DefaultInFlight
	}
	if cfg.Observer == nil {
		cfg.Observer = nobody{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Timeout < 0 || cfg.InFlight < 0 {
		return nil, fmt.Errorf("redis timeout %v, in flight %d: want more than 0", cfg.Timeout, cfg.InFlight)
	}
	option, err := cfg.option()
	if err != nil {
		return nil, err
	}
	clock := serverClock
	if driven != nil {
		clock = drivenClock
	}
	s := &Store{cfg: cfg, start: time.Now(), driven: driven, demoted: make(chan struct{}, 1), reached: make(chan struct{})}
	if s.scripts, err = newScripts(clock); err != nil {
		return nil, err
	}
	s.shards = newShards(s.breakerChanged, s.send)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.done.Go(func() { s.connect(option) })
	return s, nil
}

// Validate reports what New would refuse.
func (cfg *Config) Validate() error {
	_, err := cfg.option()
	return err
}

// Close ends the connections. Calls in flight fail.
func (s *Store) Close() {
	s.cancel()
	s.done.Wait()
}

// Command is the call that Take makes for an ask, for those who measure it: the
// script's text, its keys and its arguments, which are binary.
func Command(ask *store.Ask) (script string, keys, args []string, err error) {
	all, err := newScripts(serverClock)
	if err != nil {
		return "", nil, nil, err
	}
	order, sh := order(ask)
	one, err := all.of(sh)
	if err != nil {
		return "", nil, nil, err
	}
	c := call{script: one}
	c.pack(ask, order[:len(ask.Entries)], sh, nil)
	return one.text, c.keys, c.args, nil
}

// Take implements store.Store. ctx can only shorten the store's timeout.
func (s *Store) Take(ctx context.Context, ask *store.Ask, result *store.Result) error {
	if err := ask.Validate(); err != nil {
		return err
	}
	client := s.client.Load()
	if client == nil {
		s.cfg.Observer.Call("all", string(classRefused), 0)
		return classRefused.wrap("all", nil)
	}
	order, sh := order(ask)
	script, err := s.scripts.of(sh)
	if err != nil {
		return classBug.wrap("all", err)
	}
	c, spare := s.spare.Get().(*call)
	if !spare {
		c = newCall()
	}
	c.script = script
	c.pack(ask, order[:len(ask.Entries)], sh, s.driven)
	reply, shard, ended, err := s.call(ctx, *client, c)
	if err != nil {
		return err
	}
	if err := decode(reply, ask, order[:len(ask.Entries)], result); err != nil {
		return classBug.wrap(shard.name, err)
	}
	if shard.clockDue(ended) {
		s.cfg.Observer.Clock(shard.name, result.At-time.Since(store.Epoch))
	}
	return nil
}

// call runs the script on the keys' shard, if its breaker lets it, and tells when that
// ended, from the store's start.
func (s *Store) call(ctx context.Context, client rueidis.Client, c *call) (reply string, shard *shard, ended time.Duration, err error) {
	c.command = client.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
	shard = s.shards.of(c.command.Slot())
	c.shard = shard
	sent := time.Since(s.start)
	ok, probe := shard.breaker.Allow(sent)
	if !ok {
		s.release(c)
		s.cfg.Observer.Call(shard.name, string(classOpen), 0)
		return "", shard, sent, classOpen.wrap(shard.name, nil)
	}
	if shard.inFlight.Add(1) > s.cfg.InFlight {
		shard.inFlight.Add(-1)
		s.release(c)
		shard.breaker.Done(sent, sent, sent, breaker.Unjudged, probe)
		s.cfg.Observer.Call(shard.name, string(classOverload), 0)
		return "", shard, sent, classOverload.wrap(shard.name, nil)
	}
	c.deadline = s.start.Add(sent + s.cfg.Timeout)
	a, again := c.do(ctx, s.cfg.Timeout)
	if again {
		s.release(c)
	}
	now := time.Since(s.start)
	class := classify(a.err)
	switch class {
	case classBug:
		s.complain(shard.name, a.err)
	case classReadOnly:
		select {
		case s.demoted <- struct{}{}:
		default:
		}
	}
	shard.breaker.Done(now, sent, sent+s.cfg.Timeout, class.outcome(), probe)
	s.cfg.Observer.Call(shard.name, string(class), now-sent)
	if a.err != nil {
		return "", shard, now, class.wrap(shard.name, a.err)
	}
	return a.reply, shard, now, nil
}

// release lets another ask have a call that is nobody's.
func (s *Store) release(c *call) {
	c.reset()
	s.spare.Put(c)
}

// complain logs what no server should say, at most once a second.
func (s *Store) complain(shard string, err error) {
	second := int64(time.Since(s.start)/time.Second) + 1
	if s.logged.Swap(second) != second {
		s.cfg.Logger.Error("the counter store refused a check in a way that is a bug", "shard", shard, "error", err)
	}
}

func (s *Store) breakerChanged(shard string, from, to breaker.State) {
	s.cfg.Observer.Breaker(shard, from, to)
	if from == breaker.Closed || to == breaker.Closed { // and not of each probe
		s.cfg.Logger.Warn("a shard's breaker changed", "shard", shard, "from", from.String(), "to", to.String())
	}
}

type nobody struct{}

func (nobody) Call(string, string, time.Duration)           {}
func (nobody) Breaker(string, breaker.State, breaker.State) {}
func (nobody) Clock(string, time.Duration)                  {}
