// Package client is Shiplane Limits for those who call it, or who are limited by
// it: a client of the checker with fallbacks, an http.Handler middleware, an
// interceptor of Connect, and a Transport that obeys limits.
//
// What holds:
//   - A Check ends within its timeout, and every one has a decision that says who
//     made it. While no checker answers it costs no wait either.
//   - A request that a checker may have charged is sent to no other.
//   - A checker's word that a rule which fails closed could not be decided is a
//     decision, not an outage: no fallback admits in its place.
//   - A caller that obeys by Transport, alone on its limit, is not refused but when
//     it starts; callers that were refused together come back apart.
//   - Buckets, connections and known limits are bounded by named constants.
package client
