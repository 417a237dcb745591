// Package sim drives the real data path, limiter.Core over the in-process
// store, in virtual time: up to 150 pods, their connections to the store with
// latency and jitter, clients of many kinds, pods that come, drain and crash. A
// run is a function of its seed.
//
// In every run it checks what must hold (world.go, verify): no token is made or
// forgotten, no request stays undecided, the store charges no more than
// burst + rate · t in any window, net of what was handed back, and the pods
// admit no more than that and what was on lease. Beside it an oracle, one exact
// bucket for all pods without a network, says what each request was entitled to.
package sim
