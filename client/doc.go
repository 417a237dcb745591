// Package client is Shiplane Limits for those who call it, or who are limited by
// it: a client of the checker with fallbacks, an http.Handler middleware, an
// interceptor of Connect, and a Transport that obeys limits.
package client
