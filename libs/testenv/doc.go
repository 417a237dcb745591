// Package testenv starts real servers on this machine: Redis, standalone and as
// clusters, and PostgreSQL, on free ports of loopback addresses. It breaks them
// as machines and networks do: killed, frozen, restarted, behind a wire that
// delays and cuts, with slots that migrate and primaries that fail over.
//
// It serves tests (package envtest ties its servers to a test) and the whole
// system on one machine, so it does not import testing. It needs Linux and
// Debian's packages redis-server and postgresql.
//
// What a caller can rely on:
//
//   - Servers end with the process that started them, even if that is killed.
//   - Nothing of them is kept: no persistence, no fsync. A server that is killed
//     and restarted has lost its data, but for Postgres.
//   - A server has its ports to itself from its start to Close, also while it is
//     dead: many processes can use this package at once.
//   - A temporary folder is removed by Close. One whose owner was killed stays,
//     with its logs, as does what its nodes knew of their cluster, some KiB in
//     /dev/shm/shiplane-nodes-*, until RemoveLeft.
//
// A context given to a Start bounds the start, not the life of the servers. An
// error of a start ends with the last lines of the server's log.
package testenv
