// Package failover watches what callers see while a counter store fails: pods,
// each the real data path over the real Redis store, share a real cluster under
// load, a primary is killed, frozen, slowed down or cut off, and every decision is
// put down on a timeline until the shard is back.
//
// The load is open loop: requests are sent when they are due, whatever became of
// earlier ones. Streams of four kinds go to every shard: a paid plan above its
// limit, a free plan above its small one, bulk calls that cost ten, and logins
// that fail closed. What the process itself was late by is measured beside the
// latencies, for on a busy machine it is part of them.
//
// Soak does the same for a minute of outage at full load, and then edits rules at
// random, ten minutes if nothing else is asked: limits, modes, bans, rules that are
// new. In the outage goroutines, memory and connections have to stay bounded, in the
// edits flat: the last third of them is compared with the first.
package failover
