// Package rest is RulesService by plain HTTP and JSON: the paths of
// /v1/openapi.json over the same implementation that Connect serves.
//
// One table (table.go) says which method of which path is which call. Requests are
// filled by the descriptors of the contract, so that a field that is added there
// is a parameter, a member and a line of the document here at once.
//
//   - An item is written as in a rule file, in JSON. GET of one answers the item
//     itself, which is what PUT takes; every other answer is an object that names
//     what it holds: {"rule": …, "rollout": …, "revision": 17}.
//   - Numbers are JSON numbers, also those of 64 bits: every bound of the contract,
//     and any revision, is below 2^53.
//   - A version is an entity tag: "7". A write says which one it means to replace
//     by If-Match, or by If-None-Match: * that there is none (RFC 9110, 13.1). What
//     fails is answered 409 with the version that there is, not 412: callers have
//     one answer to handle whether they were late by a second or by a microsecond.
//   - Why something is written is the query's why, as everything else about a
//     write: a header field could not carry it but in ASCII.
//   - What went wrong is problem+json with a code (problem.go). Everything that is
//     wrong with a body is said at once, form and meaning together.
//   - Nothing is guessed: an unknown or repeated parameter, a body where none
//     belongs and a path of another spelling are refused.
//
// The Handler keeps no state.
package rest
