// Package httplimit is what a caller sees of a decision: the RateLimit header
// fields (draft-ietf-httpapi-ratelimit-headers-10), Retry-After, the optional
// X-RateLimit-* fields, and problem bodies (RFC 9457). The gateway and the
// middleware share it, so that a limit looks the same wherever it is enforced.
//
// What holds:
//   - Every enforced rule that the request met and that was looked at is shown,
//     the one that refused first comes first. Shadow rules are not shown.
//   - Obeying Retry-After works: it is the longest wait of the rules that
//     refused, rounded up to whole seconds, at least 1. It is absent where no
//     waiting helps (a ban, a cost above the limit), and the body says so.
//   - Numbers agree: t of the rule that refused is its own wait, r and q are
//     tokens of the same counter at the same instant, and nothing is rounded
//     down.
//   - A counter that could not be read shows its policy and no state: a made-up
//     remainder is worse than none.
package httplimit
