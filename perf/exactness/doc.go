// Package exactness shows that no two pods spend one token: processes of their
// own charge the same accounts of a real Redis Cluster as fast as they can, each
// notes what it was granted and at which time of the store, and the merged
// history is replayed against one exact bucket.
//
// What is granted, less what was handed back, never exceeds burst + rate · t in
// any window if and only if a bucket that begins full, refills at the rate and
// gives the same grants at the same times never falls below zero (Lindley's
// recursion). Times are whole microseconds and rates whole tokens a second, so
// that the replay counts in millionths of a token, in integers, and allows for
// no rounding.
//
// The replay ends with what the store must hold. That it holds just that, and
// not less, shows that no token was lost either.
package exactness
