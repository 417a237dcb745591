// Package serve is the life of a process: it listens, serves, drains and ends.
//
// A Process is a stack. What is pushed later ends earlier: a service pushes what
// it depends on first, its admin server next and its public server last. Then
//
//  1. listeners are bound while the process is put together, so that nothing is
//     announced that does not work, and a port in use is an error of one line;
//  2. Run serves until its context ends (a signal) or a part of it fails;
//  3. readiness turns false, and for DrainDelay everything is served as before,
//     so that load balancers turn away before a connection is refused; each answer
//     asks its client to use another connection next time;
//  4. the stack unwinds: a server stops accepting and waits for its requests up
//     to DrainTimeout, then cuts what is left and waits for its handlers to
//     return; a background task is cancelled and waited for; a closer gets
//     closeTimeout. So a closer finds no request of a later server in flight.
//
// Upgraded connections (WebSocket) have no end to wait for: they are cut when the
// other requests of their server are done.
package serve
