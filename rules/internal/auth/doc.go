// Package auth tells who calls the rules service, and what that caller may do.
//
// A caller sends a bearer token, "slt_<id>_<secret>". The id finds the token; of
// the secret, 256 random bits, only the SHA-256 is kept, and it is compared in
// constant time. A hash that is slow on purpose would protect passwords, which can
// be guessed; 256 random bits cannot.
//
// All tokens are held in memory, read again every refreshEvery, so that a request
// costs no query, and pods whose tokens are known can watch on while the database
// is away. A token that another instance has made is looked for at once; one that
// it has revoked is void here within refreshEvery of the database being there.
//
// No token and no secret is logged or put into an error.
package auth
