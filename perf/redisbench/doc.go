// Package redisbench measures what the counter store costs a real Redis: memory
// by account, and calls a second beside other limiters on the same server. It
// starts the servers itself, on loopback, and needs redis-server.
package redisbench
