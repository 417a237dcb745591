// Package storetest is the contract of libs/store as tests. Every store passes
// it: the in-process one, the Redis Cluster and the checker behind the network.
package storetest
