package rediscluster

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // the name that EVALSHA asks for, not a secret
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/counter"
)

func sha1Hex(text string) string {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// Key is the key of a subject's record: rl:{domain/kind:id}. The braces make
// one hash tag of it, so that the record and the logs lie on one shard; the id
// is percent-escaped, or base32 of its SHA-256 where it is over 64 bytes, so
// that no id closes the tag or equals another.
func Key(s limit.Subject) string { return string(appendKey(nil, s)) }

func appendKey(b []byte, s limit.Subject) []byte {
	b = append(append(b, "rl:{"...), s.Domain()...)
	b = append(append(b, '/'), s.Kind().String()...)
	b = append(b, ':')
	switch id := s.ID(); {
	case s.Hashed():
		b = base32.StdEncoding.WithPadding(base32.NoPadding).AppendEncode(append(b, '~'), []byte(id))
	case plain(id):
		b = append(b, id...)
	default:
		b = append(b, strings.ReplaceAll(url.QueryEscape(id), "~", "%7E")...)
	}
	return append(b, '}')
}

// plain reports whether an id is escaped to itself.
func plain(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// LogKey is the key of a log rule's attempts.
func LogKey(s limit.Subject, rule string) string { return logKey(Key(s), rule) }

func logKey(key, rule string) string { return key + ":log:" + rule }

// order sorts an ask's entries by shape, for fewer scripts, then by tag, for
// records that are alike: order[i] is the place in the ask of the script's
// entry i.
func order(ask *store.Ask) (order [store.EntriesMax]int, sh shape) {
	n := len(ask.Entries)
	for i := range n {
		order[i] = i
		sh.gives = sh.gives || ask.Entries[i].Give > 0
	}
	slices.SortFunc(order[:n], func(i, j int) int {
		a, b := ask.Entries[i].Rule, ask.Entries[j].Rule
		return cmp.Or(cmp.Compare(kindOf(a), kindOf(b)), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Tag, b.Tag))
	})
	for _, i := range order[:n] {
		sh.add(ask.Entries[i].Rule)
	}
	return order, sh
}

// entryBytes is about what an entry takes in appendEntries, and keyBytes the most that a
// key takes whose id needs no escape.
const (
	entryBytes = 56
	keyBytes   = 160
)

// appendEntries packs an ask's entries as check.lua unpacks them.
func appendEntries(b []byte, ask *store.Ask, order []int, gives bool) []byte {
	for _, i := range order {
		e := &ask.Entries[i]
		size, span := e.Limit.Burst, e.Limit.Rate.PerMicrosecond()
		if e.Limit.Window > 0 {
			size, span = e.Limit.Count, float64(e.Limit.Window/time.Microsecond)
		}
		if e.Rule.Algorithm == limit.SlidingLog {
			b = binary.LittleEndian.AppendUint64(b, e.Member)
		} else {
			b = binary.LittleEndian.AppendUint32(b, e.Rule.Tag)
		}
		b = appendFloats(b, span, float64(size), float64(e.Need), float64(e.Want))
		if gives {
			b = appendFloats(b, float64(e.Give), float64(e.GivenFrom/time.Microsecond))
		}
	}
	return b
}

func appendFloats(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// decode reads a script's reply to an ask into result.
func decode(reply string, ask *store.Ask, order []int, result *store.Result) error {
	values := floats(reply)
	at, err := values.time()
	if err != nil {
		return err
	}
	result.At, result.Allowed = at, values.next() == 1
	result.Outcomes = slices.Grow(result.Outcomes[:0], len(order))[:len(order)]
	for _, i := range order {
		e, o := &ask.Entries[i], &result.Outcomes[i]
		*o = store.Outcome{Granted: int64(values.next()), Never: e.Need > e.Limit.Size()}
		if e.Rule.Algorithm == limit.SlidingLog {
			decodeLog(&values, at, e, o)
		} else {
			decodeState(&values, at, e, o)
		}
	}
	if values != "" {
		return fmt.Errorf("reply of %d bytes to %d entries", len(reply), len(order))
	}
	return nil
}

// decodeState says what is left of a bucket or a window from its state.
func decodeState(values *floats, at time.Duration, e *store.Entry, o *store.Outcome) {
	a, b := values.next(), time.Duration(values.next())*time.Microsecond
	state := counter.Counter{Tokens: bucket.Tokens{Level: a, At: b}, Window: bucket.Window{Start: b, Count: int64(a)}}
	o.Short = o.Granted == 0 && e.Need > 0 && !state.Holds(at, e)
	if o.Short && !o.Never {
		o.Retry = state.Wait(at, e)
	}
	o.Remaining, o.Reset = state.Rest(at, e)
}

func decodeLog(values *floats, at time.Duration, e *store.Entry, o *store.Outcome) {
	count, free, newest := int64(values.next()), values.next(), values.next()
	o.Remaining = max(0, e.Limit.Count-count)
	o.Short = o.Granted == 0 && e.Need > e.Limit.Count-count && e.Need > 0
	if free > 0 {
		o.Retry = time.Duration(free)*time.Microsecond - at
	}
	if newest > 0 {
		o.Reset = time.Duration(newest)*time.Microsecond + e.Limit.Window - at
	}
}

// floats reads packed doubles one by one; past the end they are NaN and
// there is a rest for ever.
type floats string

func (f *floats) next() float64 {
	if len(*f) < 8 {
		*f = "\x00"
		return math.NaN()
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64([]byte((*f)[:8])))
	*f = (*f)[8:]
	return v
}

func (f *floats) time() (time.Duration, error) {
	v := f.next()
	if math.IsNaN(v) || v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
		return 0, fmt.Errorf("reply begins with the time %s", strconv.FormatFloat(v, 'g', -1, 64))
	}
	return time.Duration(v) * time.Microsecond, nil
}
