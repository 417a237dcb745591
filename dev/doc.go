// Package dev runs the whole system on one machine: three regions, each with a
// Redis Cluster, a checker and gateways, wired as in production, for developers,
// demonstrations and tests. docs/dev.md is a guided tour.
//
// One process, that of dev up, owns all others: they end with it, however it ends.
// It stays in the terminal, or goes on behind with --detach; the other commands
// reach it by a socket in its folder. The folder is locked by its owner and goes
// when it ends, so that a folder that is there and not locked is what a killed
// owner has left: the next up, or down, clears it.
package dev
