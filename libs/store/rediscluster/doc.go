// Package rediscluster keeps the counters in a Redis Cluster, or in one Redis
// or Valkey server, shared by every pod.
//
// One call is one script (check.lua) over one subject's keys, which share a
// hash tag and so a shard. The script decides everything and then writes; Redis
// runs nothing else meanwhile, so no two pods spend one token. The time is the
// server's.
//
// # When a shard does not answer
//
// A call has one timeout. It may have been executed, so it is never repeated;
// what the server says without having executed anything (NOSCRIPT, TRYAGAIN,
// MOVED, ASK) is followed. A breaker a shard stops the calls once a shard is
// clearly gone and lets one probe a second find out whether it is back. A shard
// is its slots, not its address: a replica that takes over closes the breaker, and
// as soon as the topology says that one has, probes are ten a second for a while.
// Take returns errors that wrap store.ErrTimeout or store.ErrUnavailable; what
// becomes of the request then is the fail mode's to say, in libs/limiter.
//
// A standalone server that has become a replica is left, and its name looked up
// anew: it may be another server's.
//
// A server that is absent when the store is made is an outage like any other:
// New does not fail, and the store connects when it can. So is a password that has
// changed: it is asked for again for each connection that is made.
//
// # How calls travel
//
// One connection a node carries the calls of all requests. Calls to a shard leave by
// four lanes (lanes.go): one that finds a lane free goes at once, those that do not
// go together with the next batch. So a call by itself waits for nothing, and under
// load a write and a wake-up serve many calls. Weighed in December 2026, at 64 calls
// in flight, and left: a goroutine and a write for each call, as before, which takes
// client and server together 40 % more processor time; the client's own delay before
// it writes (MaxFlushDelay), which gains nothing; more connections, of which all but
// the first are made while a caller waits; eight lanes, whose batches are half as
// large and whose client works more.
//
// # Bounds
//
// Calls in flight are bounded a shard; one that is abandoned keeps its place until
// its reply comes, or its connection is closed: within 2 s of the server's silence.
package rediscluster
