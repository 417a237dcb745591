// Package jwks verifies JSON Web Tokens (RFC 7519) against the public keys of
// their issuer, a JWK Set (RFC 7517) in a file or at a URL, and reads from them who
// is counted.
//
// What holds (RFC 8725):
//   - Only signatures by public keys are accepted: RSA, ECDSA and Ed25519. Neither
//     "none" nor HMAC is, under which a public key would be a secret that everybody
//     knows. A key that names its algorithm verifies that one only.
//   - Keys come from the set and from nowhere else, whatever a token's header says.
//   - A token has to name the issuer, and the audience if one is configured, and has
//     to expire.
//   - A set that cannot be had or read changes nothing: the last good one stays. A
//     token whose key is not in the set has it fetched again, at most once in
//     fetchInterval, whoever sends such tokens and however many.
package jwks
