package peers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/testenv/port"
	"github.com/shiplane/limits/libs/testenv/process"
)

const (
	readyPoll = 20 * time.Millisecond
	readyWait = 30 * time.Second
	logLines  = 20

	// tick is the unit of the processor times in /proc: USER_HZ, 100 on Linux
	// whatever the kernel's own.
	tick = 10 * time.Millisecond
)

// service is a running rate limit service.
type service struct {
	process *process.Process
	ports   []*port.Port
	grpc    string // HOST:PORT
	log     string
}

// startService runs a program until its gRPC port accepts connections. Words of
// args and env that are {grpc}, {http} and {admin} become free addresses of
// loopback, and {grpc-port} and the like their ports.
func startService(ctx context.Context, dir, name string, args, env []string) (_ *service, err error) {
	s := &service{log: filepath.Join(dir, name+".log")}
	defer func() {
		if err != nil {
			s.close()
			err = fmt.Errorf("start %s: %w", name, err)
		}
	}()
	var words []string
	for _, word := range [...]string{"grpc", "http", "admin"} {
		p, err := port.Reserve("127.0.0.1")
		if err != nil {
			return nil, err
		}
		s.ports = append(s.ports, p)
		words = append(words, "{"+word+"}", p.String(), "{"+word+"-port}", strconv.Itoa(p.Number()))
	}
	s.grpc = s.ports[0].String()
	put := strings.NewReplacer(words...)
	cfg := process.Config{Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, Log: s.log}
	for _, arg := range args {
		cfg.Args = append(cfg.Args, put.Replace(arg))
	}
	for _, v := range env {
		cfg.Env = append(cfg.Env, put.Replace(v))
	}
	if s.process, err = process.Start(cfg); err != nil {
		return nil, err
	}
	return s, s.await(ctx)
}

// await waits until the service accepts connections.
func (s *service) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.grpc)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.process.Done():
			return errors.Join(s.process.Err(), errors.New(process.Tail(s.log, logLines)))
		case <-ctx.Done():
			return errors.Join(err, errors.New(process.Tail(s.log, logLines)))
		case <-time.After(readyPoll):
		}
	}
}

// close kills the service: not all of them end in time when they are asked to, and
// none has anything to save.
func (s *service) close() {
	if s.process != nil {
		s.process.Kill()
	}
	for _, p := range s.ports {
		p.Release()
	}
}

// processorTime is what a process has taken of all processors together, by proc(5).
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the program's name in brackets, and may hold anything.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	const utime, stime = 11, 12 // counted from the third
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, stat)
	}
	var ticks int64
	for _, field := range [...]string{fields[utime], fields[stime]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}
