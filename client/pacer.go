package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Bounds of what a pacer does by itself.
const (
	spreadMin    = time.Second            // of those who were told the same time
	spreadMax    = time.Minute            //
	spreadDouble = 6                      // times at most, by then it is above its bound
	backoffMin   = 100 * time.Millisecond // after a 503 that says no time
	probeWait    = time.Second            // before the next is sent while one without an answer finds out whether refusals have ended
	slack        = time.Millisecond       // a wait is told in whole milliseconds, in TypeScript too
)

// pacer is what is known of one limit. Its arithmetic is pure: times and chance
// come in, so that testdata/pacing.json says the same to the TypeScript client.
type pacer struct {
	users int // requests in it; under the transport's lock

	turn   chan struct{} // holds whoever is sent next: the others wait in the order in which they came
	news   chan struct{} // an answer came: who is next looks again
	mu     sync.Mutex
	behind int // requests that wait

	policies map[string]*policy
	until    time.Time // nobody is sent before
	refusals int       // in a row
	counted  time.Time // when the last of them came: who was sent before then was told the same
	flying   int       // requests sent and not answered
	sent     time.Time // when the last was sent
}

func newPacer() *pacer {
	return &pacer{turn: make(chan struct{}, 1), news: make(chan struct{}, 1)}
}

// admit waits until a request can pass, at most for most, and counts it as sent.
func (p *pacer) admit(ctx context.Context, most time.Duration) (sent time.Time, err error) {
	start := time.Now()
	if wait := p.join(start); wait > most {
		p.leave()
		return start, &WaitError{wait}
	}
	defer p.leave()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return start, context.Cause(ctx)
	}
	for {
		now := time.Now()
		wait := p.take(now)
		if wait == 0 {
			return now, nil
		}
		if wait > most-now.Sub(start) {
			return now, &WaitError{wait}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.news:
		case <-ctx.Done():
			timer.Stop()
			return now, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// join counts a request as waiting, and returns how long it will have to, as far
// as that can be told.
func (p *pacer) join(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait := p.wait(now, p.behind)
	p.behind++
	return wait
}

func (p *pacer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind--
}

// take counts a request as sent, or returns how long it must wait to be looked at
// again.
func (p *pacer) take(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.wait(now, 0); wait > 0 {
		return wait
	}
	// While all are refused one finds out whether that has ended.
	if wait := p.sent.Add(probeWait).Sub(now); p.refusals > 0 && p.flying > 0 && wait > 0 {
		return wait
	}
	for _, l := range p.policies {
		l.level--
	}
	p.flying++
	p.sent = now
	return 0
}

// wait is how long a request with so many before it must wait.
func (p *pacer) wait(now time.Time, ahead int) time.Duration {
	wait := max(0, p.until.Sub(now))
	for _, l := range p.policies {
		l.refill(now)
		wait = max(wait, l.wait(now, ahead))
	}
	return wait
}

// failed counts a request without an answer: it may have been counted there.
func (p *pacer) failed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered()
}

// answered counts a request as no more on its way.
func (p *pacer) answered() {
	p.flying--
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// learn takes what an answer to a request sent then tells, and returns the time
// until the request can pass; 0 for an answer that is no refusal. chance is within
// [0, 1).
func (p *pacer) learn(status int, h http.Header, sent, now time.Time, chance float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered()
	limited := status == http.StatusTooManyRequests
	refused := limited || status == http.StatusServiceUnavailable
	p.read(h, sent, now, refused)
	known := p.refusals > 0 && sent.Before(p.counted)
	if !refused {
		if !known {
			p.refusals = 0
		}
		return 0
	}
	wait, told := retryAfter(h.Get("Retry-After"), now)
	if !told && !limited {
		wait = backoffMin
	}
	if !known {
		spread := p.spread(limited || told)
		p.refusals++
		p.counted = now
		wait += time.Duration(chance * float64(spread))
	}
	if until := now.Add(wait); until.After(p.until) {
		p.until = until
	}
	return p.until.Sub(now)
}

// spread is the length of time over which those who were refused come back: a
// window, for they may be many, doubled by each refusal in a row.
func (p *pacer) spread(limited bool) time.Duration {
	spread := backoffMin
	if limited {
		spread = spreadMin
		for _, l := range p.policies {
			spread = max(spread, min(seconds(l.window), spreadMax))
		}
	}
	return min(spread<<min(p.refusals, spreadDouble), spreadMax)
}

// retryAfter reads Retry-After: seconds, or a date.
func retryAfter(text string, now time.Time) (wait time.Duration, ok bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return seconds(float64(n)), true
	}
	at, err := http.ParseTime(text)
	return max(0, at.Sub(now)), err == nil
}

// seconds is a length of time, at most a century.
func seconds(n float64) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(min(n, century) * float64(time.Second))
}
