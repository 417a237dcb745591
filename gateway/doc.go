// Package gateway is Shiplane's API gateway: a reverse proxy that holds callers to
// their limits.
//
// main.go calls Main, which reads the command line (config.go) and calls Run, the
// composition root (run.go). The path of a request is internal/edge.
package gateway
