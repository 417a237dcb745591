package remote

import (
	"fmt"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

var (
	kinds = map[limit.Kind]checkv1.SubjectKind{
		limit.IP: checkv1.SubjectKind_SUBJECT_KIND_IP, limit.User: checkv1.SubjectKind_SUBJECT_KIND_USER, limit.Account: checkv1.SubjectKind_SUBJECT_KIND_ACCOUNT,
	}
	counters = map[limit.Algorithm]checkv1.Counter{
		limit.TokenBucket: checkv1.Counter_COUNTER_TOKEN_BUCKET, limit.FixedWindow: checkv1.Counter_COUNTER_FIXED_WINDOW, limit.SlidingLog: checkv1.Counter_COUNTER_SLIDING_LOG,
	}
)

// encode checks an ask as the checker will, and writes it in the contract's words, in
// memory of its own. The error wraps store.ErrInvalid.
func encode(ask *store.Ask) (*checkv1.Ask, error) {
	if err := ask.Validate(); err != nil {
		return nil, err
	}
	s, n := ask.Subject, len(ask.Entries)
	made := &checkv1.Ask{Domain: s.Domain(), Kind: kinds[s.Kind()], Id: []byte(s.ID()), Hashed: s.Hashed(), Entries: make([]*checkv1.AskEntry, n)}
	entries := make([]checkv1.AskEntry, n)
	for i := range ask.Entries {
		e, wire := &ask.Entries[i], &entries[i]
		if err := e.Limit.Validate(e.Rule.Algorithm); err != nil {
			return nil, fmt.Errorf("%w: rule %s: %w", store.ErrInvalid, e.Rule.ID, err)
		}
		wire.Rule, wire.Tag, wire.Counter, wire.Shadow = e.Rule.ID, e.Rule.Tag, counters[e.Rule.Algorithm], e.Rule.Mode == limit.Shadow
		wire.Rate, wire.Size, wire.WindowUs = float64(e.Limit.Rate), e.Limit.Size(), e.Limit.Window.Microseconds()
		wire.Give, wire.GivenFromUs, wire.Need, wire.Want, wire.Member = e.Give, e.GivenFrom.Microseconds(), e.Need, e.Want, e.Member
		made.Entries[i] = wire
	}
	return made, nil
}

// decode reads what became of an ask.
func decode(r *checkv1.AskResult, ask *store.Ask, result *store.Result) error {
	if len(r.GetOutcomes()) != len(ask.Entries) {
		return fmt.Errorf("%w: %d outcomes, want %d", errAnswer, len(r.GetOutcomes()), len(ask.Entries))
	}
	result.At, result.Allowed, result.Outcomes = micros(r.GetAtUs()), r.GetAllowed(), result.Outcomes[:0]
	for _, o := range r.GetOutcomes() {
		result.Outcomes = append(result.Outcomes, store.Outcome{
			Granted: o.GetGranted(), Remaining: o.GetRemaining(), Retry: micros(o.GetRetryUs()), Reset: micros(o.GetResetUs()), Never: o.GetNever(), Short: o.GetShort(),
		})
	}
	return nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
