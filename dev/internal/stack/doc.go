// Package stack is the whole system on one machine: in each region a Redis Cluster
// on libs/testenv, a checker and gateways; in the first one, the home region, also
// PostgreSQL, the rules service and the API behind the gateways. wiring.go says
// with which flags each service runs: a service that is new goes there.
//
// Everything is a process that this one has started, and ends with it, even if it
// is killed. A fault is done through the handle that a process was started with,
// never to a number, so that nobody else's process is ever hit.
//
// A region's Redis stands behind proxies, one a server, and announces them: what
// the pods speak to can be cut off while the servers go on speaking to each other
// (a partition), and a client is led to a proxy wherever slots move.
package stack
