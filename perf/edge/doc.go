// Package edge treats a gateway, in a process of its own, as the internet does:
// bodies of a gigabyte, streams, a browser, thousands of idle connections, clients
// that dribble, headers without end, and a SIGTERM while requests are in flight.
// Each scenario checks what must hold and reports the gateway's memory. Some are a
// checker's, at both of its ports.
//
// It is a program and no test: it takes minutes, and its figures are the
// machine's. What can be checked quickly is a test of the gateway.
//
// Everything is on loopback and bounded in time. The gateway's memory is the
// resident set that Linux reports (VmRSS and its peak, VmHWM, which is reset
// before each scenario), so that it runs on Linux only.
package edge
