// Package keys knows the API keys: it reads the key file, follows it, and finds
// the account that a presented key belongs to.
//
// The file is a YAML list. It holds no key, only the SHA-256 of each:
//
//   - hash: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//     account: acct_7Q2
//     plan: growth
//     name: the shop's backend (optional, for people)
//
// A presented key is hashed and looked up. How long the look-up takes tells at
// most something about hashes, from which no key can be had, so that it need not
// take constant time. An unsalted hash is enough for keys that nobody can guess,
// as Generate makes them; a guessable key is not safe under any hash.
//
// A file with a fault changes nothing: the keys in force stay. Unlike a rule, half
// a key file is not better than the last good one, for who is missing in it would
// be turned away.
package keys
