// Package redisbench measures what the counter store costs a real Redis: memory
// by account, and calls a second beside other limiters on the same server. It
// starts the servers itself, on loopback, and needs redis-server.
//
// The comparison for speed is what redis-benchmark does, written here: it takes
// no argument with a zero byte in it, and the script's are binary. bare.go sends
// commands made beforehand, so many at once on each connection, and only looks
// whether each reply is an error.
//
// The server computes in one thread. In use it has a machine of its own; here it gets
// a processor where there are two, for this process uses all others and no more: where
// it used that one too, every answer that it hands to a goroutine would take the
// server's place.
package redisbench
