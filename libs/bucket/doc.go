// Package bucket is the arithmetic of the three counters: token bucket, fixed
// window and sliding log. Its functions are pure: the time is an argument, on
// the clock of whoever keeps the counter (a store's, since store.Epoch, in
// whole microseconds).
//
// # Token bucket
//
// The state is the tokens at the last write, never rounded, and the time of it:
//
//	level(now) = min(burst, tokens + max(0, now − at) · rate)
//
// An edit of rate or burst, a share that moves and a rollback all keep the
// state: the tokens carry over, clamped to the new burst. The alternative, a
// theoretical arrival time (GCRA), is one number instead of two, but its
// meaning depends on the rate that wrote it: a drained 1,000/s bucket edited to
// 10/s gains 1,980 tokens, one of 1/min rolled back to 10/s is locked for
// minutes.
//
// # Clocks that step back
//
// A store's clock can read less than a state's time (a failover, NTP). Elapsed
// time then counts as 0 and Mend moves the state to the present, so that no
// token is lost or made, and refilling goes on at once.
package bucket
