package testenv

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Loopback is the address of servers that were given none.
const Loopback = "127.0.0.1"

// RedisConfig says how Redis servers run. The zero value is one that anybody on
// this machine may use, unencrypted.
type RedisConfig struct {
	// Address is an IPv4 loopback address: Loopback if empty. Another one for
	// each region keeps regions apart to the eye.
	Address string

	// Dir is an empty folder, or a new one, for the servers' files and logs. It
	// is left alone by Close. Empty means a temporary one, which Close removes.
	Dir string

	// Config is added to redis.conf and wins over what stands there already: a
	// directive, and its arguments as they are written in that file.
	Config map[string]string

	// Users may use the servers. Without any, nobody needs to sign in.
	Users []User

	// TLS encrypts every connection, those between nodes too, by certificates
	// made for these servers.
	TLS bool

	// Proxied puts a proxy in front of each server, and lets clusters announce
	// the proxies' addresses. Replicas copy their primary through its proxy as
	// well; the cluster bus goes past it, so a silent proxy cuts a server off
	// from clients and causes no failover.
	Proxied bool

	// Command runs the server, with the path of its redis.conf as the last
	// argument. Empty means redis-server in PATH.
	Command []string
}

// User is somebody that may use a Redis.
type User struct {
	Name     string // "default" is who clients without a name are
	Password string // empty: none is asked for
	Rules    string // ACL rules; empty: everything is allowed
}

// allRights are the ACL rules that allow everything.
const allRights = "~* &* +@all"

// adminName is the user that testenv and the nodes themselves sign in as.
const adminName = "testenv"

func (c *RedisConfig) validate() error {
	var faults []error
	names := map[string]bool{adminName: true}
	for _, u := range c.Users {
		if u.Name == "" || strings.ContainsAny(u.Name, " \t\r\n\"'") {
			faults = append(faults, fmt.Errorf("users: name %q: want some characters other than blanks and quotes", u.Name))
		}
		if names[u.Name] {
			faults = append(faults, fmt.Errorf("users: name %q: is there twice, or testenv's own", u.Name))
		}
		names[u.Name] = true
	}
	for directive, value := range c.Config {
		if strings.ContainsAny(directive, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			faults = append(faults, fmt.Errorf("config: %q %q: want one line, a directive and its arguments", directive, value))
		}
	}
	return errors.Join(faults...)
}

// rights are the words of an ACL that let the user in, with the hash of its
// password, so that no character of it needs quoting.
func (u User) rights() []string {
	secret := "nopass"
	if u.Password != "" {
		secret = fmt.Sprintf("#%x", sha256.Sum256([]byte(u.Password)))
	}
	rules := u.Rules
	if rules == "" {
		rules = allRights
	}
	return append([]string{"on", secret}, strings.Fields(rules)...)
}

// redisConf is the content of a node's redis.conf.
func redisConf(n *Node, nodeTimeout time.Duration) string {
	own := n.servers
	lines := []string{
		"bind " + own.cfg.Address,
		`save ""`,
		"appendonly no",
		"enable-debug-command local",
		"repl-diskless-sync-delay 0",     // a replica need not wait for others to join it
		"repl-diskless-load on-empty-db", // nor for the disk
		"repl-ping-replica-period 1",
		"repl-timeout 10", // a copy that got stuck is begun again within a test's patience
		"maxmemory-policy volatile-lfu",
		fmt.Sprintf("dir %q", n.dir),
	}
	listen := "port %d"
	if own.cfg.TLS {
		listen = "port 0\ntls-port %d"
		lines = append(lines,
			fmt.Sprintf("tls-ca-cert-file %q", filepath.Join(own.dir, CAFile)),
			fmt.Sprintf("tls-cert-file %q", filepath.Join(own.dir, CertFile)),
			fmt.Sprintf("tls-key-file %q", filepath.Join(own.dir, KeyFile)),
			"tls-auth-clients no", "tls-replication yes", "tls-cluster yes")
	}
	lines = append(lines, fmt.Sprintf(listen, n.port.Number()))
	if n.bus != nil {
		lines = append(lines, clusterConf(n, nodeTimeout)...)
	}
	users := own.cfg.Users
	if len(users) == 0 {
		users = []User{{Name: "default"}}
	} else if !slices.ContainsFunc(users, func(u User) bool { return u.Name == "default" }) {
		lines = append(lines, "user default off")
	}
	for _, u := range slices.Concat(users, []User{own.admin}) {
		lines = append(lines, "user "+u.Name+" "+strings.Join(u.rights(), " "))
	}
	for _, directive := range slices.Sorted(maps.Keys(own.cfg.Config)) {
		lines = append(lines, directive+" "+own.cfg.Config[directive])
	}
	return strings.Join(lines, "\n") + "\n"
}

func clusterConf(n *Node, nodeTimeout time.Duration) []string {
	lines := []string{
		"cluster-enabled yes",
		fmt.Sprintf("cluster-config-file %q", filepath.Join(n.servers.quick, n.name+".conf")),
		fmt.Sprintf("cluster-port %d", n.bus.Number()),
		nodeTimeoutDirective + " " + milliseconds(nodeTimeout),
		"cluster-require-full-coverage no",
		"cluster-allow-replica-migration no", // a replica stays where a test has put it
		"masteruser " + adminName,
		"masterauth " + n.servers.admin.Password,
	}
	if n.proxy != nil {
		announced := "cluster-announce-port"
		if n.servers.cfg.TLS {
			announced = "cluster-announce-tls-port"
		}
		lines = append(lines,
			"cluster-announce-ip "+n.servers.cfg.Address,
			fmt.Sprintf("%s %d", announced, n.proxy.Port()),
			fmt.Sprintf("cluster-announce-bus-port %d", n.bus.Number()))
	}
	return lines
}
