package loadgen

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/net/http/httpguts"
)

// Bounds of a run: a slip of the keyboard shall not become an attack.
const (
	durationMax    = time.Hour   //
	timeoutMax     = time.Minute // a reply later than that is an error
	streamsMax     = 64          // each has workers of its own
	rateMax        = 100_000.0   // requests per second, over all streams
	keysMax        = 1_000_000   // each key that was sent to is remembered: about 100 bytes
	connectionsMax = 10_000      // open at once, over all streams
	workersMax     = 4096        // requests in flight, per stream
	exponentMin    = 1.01        // at 1 a Zipf distribution over any number of keys has no mean
	exponentMax    = 10.0        //
)

// What requests spread over keys and time by.
var (
	distributions = []string{"hot", "uniform", "zipf"}
	arrivalKinds  = []string{"constant", "poisson"}
)

// Config is one run. The tags make it the command's flags; Defaults gives their
// defaults.
type Config struct {
	Target   string        `placeholder:"URL" help:"Where to send, as in http://127.0.0.1:8080; required. A host that is not loopback is refused without --allow-remote."`
	Duration time.Duration `default:"10s" help:"How long to send, at most 1h."`
	Streams  []Stream      `name:"stream" sep:"none" placeholder:"FIELDS" help:"Traffic of one plan; required, may be repeated. Fields: plan=NAME,rate=30/s (both required), key=KEY, path=/v1/labels, method=GET, cost=1 (tokens a request), limit=10/s,burst=20 (per key; what is admitted is compared with it)."`

	Keys         int     `default:"1" help:"Keys of each stream: 1 sends the stream's key as it is, more send KEY-0, KEY-1, ... (at most 1,000,000)."`
	KeyHeader    string  `default:"X-Api-Key" help:"The header that carries the key."`
	Distribution string  `default:"uniform" help:"How requests spread over the keys: hot (the first key gets --hot-share, the others the rest), uniform or zipf."`
	HotShare     float64 `default:"0.9" help:"Part of the requests that the hot key gets, 0 to 1."`
	Exponent     float64 `default:"1.1" help:"Exponent of zipf, 1.01 to 10: the larger, the hotter the first keys."`

	Arrivals string `default:"constant" help:"Gaps between requests: constant, or exponential as of many independent callers (poisson)."`
	Seed     uint64 `default:"1" help:"Seed of arrivals and keys: the same seed sends the same plan."`

	Connections int           `default:"256" help:"Connections open at once, 1 to 10,000. A request that waits for one is late, and its latency says so."`
	Workers     int           `default:"1024" help:"Requests in flight per stream, 1 to 4,096."`
	Timeout     time.Duration `default:"5s" help:"Wait for a reply, 1ms to 1m."`

	JSON        string `placeholder:"FILE" help:"Write the report as JSON too; - is standard output, instead of the text."`
	AllowRemote bool   `help:"Allow a target that is not loopback. Send load only to what is yours."`
}

// Defaults is a Config with every default set, for callers that are no command
// line. Target and Streams are still to be given.
func Defaults() (Config, error) {
	var cfg Config
	err := kong.ApplyDefaults(&cfg)
	return cfg, err
}

// validate reports every fault at once, each with its flag, value and range.
func (c *Config) validate() error {
	faults := []error{
		between("--duration", c.Duration, time.Millisecond, durationMax),
		between("--keys", c.Keys, 1, keysMax),
		between("--hot-share", c.HotShare, 0, 1),
		between("--exponent", c.Exponent, exponentMin, exponentMax),
		between("--connections", c.Connections, 1, connectionsMax),
		between("--workers", c.Workers, 1, workersMax),
		between("--timeout", c.Timeout, time.Millisecond, timeoutMax),
		between("number of --stream", len(c.Streams), 1, streamsMax),
	}
	faults = append(faults,
		oneOf("--distribution", c.Distribution, distributions),
		oneOf("--arrivals", c.Arrivals, arrivalKinds))
	if !httpguts.ValidHeaderFieldName(c.KeyHeader) {
		faults = append(faults, fmt.Errorf("--key-header %.40q: want the name of an HTTP header", c.KeyHeader))
	}
	faults = append(faults, c.validateTarget()...)
	return errors.Join(append(faults, c.validateStreams()...)...)
}

func (c *Config) validateTarget() []error {
	target, err := url.Parse(c.Target)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return []error{fmt.Errorf("--target %.80q: want http://HOST:PORT or https://HOST:PORT", c.Target)}
	}
	var faults []error
	if target.Path != "" && target.Path != "/" || target.RawQuery != "" || target.Fragment != "" || target.User != nil {
		faults = append(faults, fmt.Errorf("--target %.80q: want scheme, host and port alone; the path belongs into --stream", c.Target))
	}
	if !c.AllowRemote && !isLoopback(target.Hostname()) {
		faults = append(faults, fmt.Errorf("--target %.80q: %w", c.Target, errRemote))
	}
	return faults
}

// validateStreams checks what one stream alone cannot know: the sum of the
// rates, and that the streams of a plan agree on its limit.
func (c *Config) validateStreams() []error {
	var faults []error
	total := 0.0
	first := map[string]*Stream{}
	for i := range c.Streams {
		s := &c.Streams[i]
		total += float64(s.Rate)
		if same, ok := first[s.Plan]; !ok {
			first[s.Plan] = s
		} else if same.Limit != s.Limit {
			faults = append(faults, fmt.Errorf("--stream %s: limit %v, and another stream of the plan says %v: one plan has one limit", s.Plan, s.Limit, same.Limit))
		}
	}
	if total > rateMax {
		faults = append(faults, fmt.Errorf("--stream: all rates together are %g/s, want at most %g/s", total, rateMax))
	}
	return faults
}

func oneOf(field, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s is %.40q, want one of %s", field, value, strings.Join(allowed, ", "))
}

// between reports a value outside [low, high]; NaN is outside.
func between[T int | float64 | time.Duration](field string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v to %v", field, value, low, high)
}
