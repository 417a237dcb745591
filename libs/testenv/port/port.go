// Package port holds free TCP ports of a loopback address for servers that are
// about to be started, stopped and started again.
package port

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Port is a TCP port that the kernel keeps for this process until Release, or
// until the process ends, however it ends.
//
// A server can bind it if it sets SO_REUSEADDR, as Redis, Postgres and Go do,
// and again after a restart. Nobody gets it by asking for a free port, and no
// outgoing connection takes it. While no server listens, connections to it are
// refused.
type Port struct {
	address netip.AddrPort
	release sync.Once
	socket  int
}

// Reserve picks a free port of a loopback address such as 127.0.0.1. All of
// 127.0.0.0/8 is there on Linux without further ado. The error names an address
// that is no IPv4 loopback address, or says what the kernel refused.
func Reserve(address string) (*Port, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is4() || !ip.IsLoopback() {
		return nil, fmt.Errorf("address %q: want an IPv4 loopback address, 127.0.0.0/8", address)
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port of %s: %w", address, os.NewSyscallError("socket", err))
	}
	chosen, err := bind(socket, ip)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reserve a port of %s: %w", address, err), unix.Close(socket))
	}
	return &Port{address: chosen, socket: socket}, nil
}

// bind binds the socket to a port that nobody has, and then lets a server share
// it. The order matters: with SO_REUSEADDR set before, two reservations could
// meet on one port.
func bind(socket int, ip netip.Addr) (netip.AddrPort, error) {
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: ip.As4()}); err != nil {
		return netip.AddrPort{}, os.NewSyscallError("bind", err)
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return netip.AddrPort{}, os.NewSyscallError("setsockopt", err)
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		return netip.AddrPort{}, os.NewSyscallError("getsockname", err)
	}
	bound, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("getsockname: %T is no IPv4 address", name)
	}
	return netip.AddrPortFrom(ip, uint16(bound.Port)), nil
}

// String returns address:port.
func (p *Port) String() string { return p.address.String() }

// Number returns the port, 1 to 65535.
func (p *Port) Number() int { return int(p.address.Port()) }

// Release lets others have the port. A second call does nothing.
func (p *Port) Release() {
	p.release.Do(func() { unix.Close(p.socket) })
}
