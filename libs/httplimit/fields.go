package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// The header fields, as net/http spells them in an http.Header.
const (
	policyField     = "Ratelimit-Policy"
	stateField      = "Ratelimit"
	retryAfterField = "Retry-After"
	xLimitField     = "X-Ratelimit-Limit"
	xRemainingField = "X-Ratelimit-Remaining"
	xResetField     = "X-Ratelimit-Reset"
)

// integerMax is the largest Integer of a structured field (RFC 9651, 3.3.1). A
// bucket of 1e9 tokens that refills once a year takes longer to fill, in seconds.
const integerMax = 999_999_999_999_999

// outageRetry is the wait told with a 503: a store that went away is asked again
// about once a second.
const outageRetry = time.Second

// Fields are the header fields of one response. A field that is empty is not
// sent. It is a plain value, free of the decision it was made from.
type Fields struct {
	Policy     string // RateLimit-Policy: what the rules allow
	State      string // RateLimit: what is left of it
	RetryAfter string // whole seconds, on a refusal that waiting can cure

	// X-RateLimit-*, of one rule: the one that refused with the longest wait, else
	// the one with the smallest part left. Reset is in seconds from now, as t is.
	XLimit, XRemaining, XReset string
}

// Describe makes the header fields of a decision; legacy adds X-RateLimit-*.
// It makes one allocation, of all their text.
func Describe(d *limit.Decision, legacy bool) Fields {
	var space [512]byte // holds about eight rules; more grow on the heap
	b := space[:0]
	for i := range d.Outcomes {
		if o := outcomeAt(d, i); o.Rule.Mode == limit.Enforce {
			b = appendPolicy(appendComma(b, 0), o)
		}
	}
	policyEnd := len(b)
	for i := range d.Outcomes {
		if o := outcomeAt(d, i); o.Rule.Mode == limit.Enforce && o.Known {
			b = appendState(appendComma(b, policyEnd), o)
		}
	}
	stateEnd := len(b)
	if after, ok := RetryAfter(d); ok {
		b = strconv.AppendInt(b, after, 10)
	}
	retryEnd := len(b)
	limitEnd, remainingEnd := retryEnd, retryEnd
	if o := tightest(d); legacy && o != nil {
		b = strconv.AppendInt(b, o.Limit.Size(), 10)
		limitEnd, remainingEnd = len(b), len(b)
		if o.Known {
			b = strconv.AppendInt(b, max(o.Remaining, 0), 10)
			remainingEnd = len(b)
			if t, ok := wait(o); ok {
				b = strconv.AppendInt(b, t, 10)
			}
		}
	}
	text := string(b)
	return Fields{
		Policy: text[:policyEnd], State: text[policyEnd:stateEnd], RetryAfter: text[stateEnd:retryEnd],
		XLimit: text[retryEnd:limitEnd], XRemaining: text[limitEnd:remainingEnd], XReset: text[remainingEnd:],
	}
}

// Set puts the fields into h, in the place of any of the same name. Where h
// answers a script of another origin (CORS), it lets the script read them.
func (f *Fields) Set(h http.Header) {
	values := make([]string, 0, 6)
	var names [6]string
	for _, field := range [...]struct{ name, value string }{
		{policyField, f.Policy}, {stateField, f.State}, {retryAfterField, f.RetryAfter},
		{xLimitField, f.XLimit}, {xRemainingField, f.XRemaining}, {xResetField, f.XReset},
	} {
		if field.value == "" {
			continue
		}
		values = append(values, field.value)
		h[field.name] = values[len(values)-1 : len(values) : len(values)]
		names[len(values)-1] = field.name
	}
	expose(h, names[:len(values)]...)
}

// expose lets a script of another origin read fields, if it may read h at all
// (Fetch, 3.2.2).
func expose(h http.Header, names ...string) {
	if len(names) > 0 && len(h["Access-Control-Allow-Origin"]) > 0 {
		h.Add("Access-Control-Expose-Headers", strings.Join(names, ", "))
	}
}

// RetryAfter is the Retry-After of a refusal in whole seconds, rounded up, at
// least 1. ok is false where nothing was refused, or no waiting helps.
func RetryAfter(d *limit.Decision) (seconds int64, ok bool) {
	if d.Verdict == limit.Allowed {
		return 0, false
	}
	after, ok := d.RetryAfter()
	if d.Verdict == limit.Unavailable && !hopeless(d) {
		after, ok = max(after, outageRetry), true
	}
	return max(ceilSeconds(after), 1), ok
}

// hopeless reports whether a rule refused that no waiting satisfies.
func hopeless(d *limit.Decision) bool {
	if d.Refused < 0 {
		return false
	}
	o := decisive(d)
	return o.Never || o.Banned
}

func refuses(o *limit.Outcome) bool { return o.Short && o.Rule.Mode == limit.Enforce }

// outcomeAt returns the i-th outcome to show: the one that refused comes first.
func outcomeAt(d *limit.Decision, i int) *limit.Outcome {
	switch {
	case d.Refused < 0 || i > d.Refused:
		return &d.Outcomes[i]
	case i == 0:
		return &d.Outcomes[d.Refused]
	default:
		return &d.Outcomes[i-1]
	}
}

// tightest is the rule that X-RateLimit-* speak of; nil if none is enforced.
func tightest(d *limit.Decision) *limit.Outcome {
	if d.Refused >= 0 {
		return decisive(d)
	}
	var found *limit.Outcome
	least := math.Inf(1)
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		if o.Rule.Mode != limit.Enforce || !o.Known {
			continue
		}
		if part := float64(o.Remaining) / float64(o.Limit.Size()); part < least {
			found, least = o, part
		}
	}
	return found
}

// decisive is the rule that a refused caller has to satisfy: one that no waiting
// satisfies, else the one with the longest wait, else the one that refused first.
// d.Refused is not negative.
func decisive(d *limit.Decision) *limit.Outcome {
	found := &d.Outcomes[d.Refused]
	for i := range d.Outcomes {
		o := outcomeAt(d, i)
		if !refuses(o) {
			continue
		}
		if o.Never || o.Banned {
			return o
		}
		if o.Retry > found.Retry {
			found = o
		}
	}
	return found
}

// wait is t of a rule in seconds, rounded up: until what it lacks will be there
// (at least 1, as Retry-After), else until it is full or starts anew. ok is false
// if it lacks what can never be there.
func wait(o *limit.Outcome) (seconds int64, ok bool) {
	switch {
	case o.Never || o.Banned:
		return 0, false
	case o.Short:
		return max(ceilSeconds(o.Retry), 1), true
	default:
		return ceilSeconds(o.Reset), true
	}
}

func appendPolicy(b []byte, o *limit.Outcome) []byte {
	b = appendString(b, o.Rule.Name())
	b = strconv.AppendInt(append(b, ";q="...), o.Limit.Size(), 10)
	return strconv.AppendInt(append(b, ";w="...), WindowSeconds(o.Limit), 10)
}

func appendState(b []byte, o *limit.Outcome) []byte {
	b = appendString(b, o.Rule.Name())
	b = strconv.AppendInt(append(b, ";r="...), max(o.Remaining, 0), 10)
	if t, ok := wait(o); ok {
		b = strconv.AppendInt(append(b, ";t="...), t, 10)
	}
	return b
}

// appendComma parts two members of the list that begins at from.
func appendComma(b []byte, from int) []byte {
	if len(b) > from {
		b = append(b, ", "...)
	}
	return b
}

// WindowSeconds is w of a policy: the window, or the time in which an empty
// bucket fills, rounded up to whole seconds, 1 at least.
func WindowSeconds(l limit.Limit) int64 {
	if l.Window > 0 {
		return ceilSeconds(l.Window)
	}
	// 5 at 5/m is 60.000000000000001 in floating point, and means 60.
	seconds := float64(l.Burst) / float64(l.Rate)
	return int64(min(math.Ceil(seconds*(1-1e-12)), integerMax))
}

func ceilSeconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second > 0 {
		whole++
	}
	return whole
}

// appendString writes text as a String of a structured field (RFC 9651, 4.1.6),
// which is printable ASCII with backslashes before quotes and backslashes. Rule
// ids are nothing else; should one ever be, its other bytes stand percent-encoded.
func appendString(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '%', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
