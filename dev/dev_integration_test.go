package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/dev/internal/statedir"
	"github.com/shiplane/limits/libs/testenv"
)

// A system comes up by one command and holds one limit over its gateways; faults
// happen to it by name, are survived as designed and undone; and nothing of it is
// left when it is taken down: no process, no port, no file.
func TestSystemIsUpBreaksAndLeavesNothing(t *testing.T) {
	bin := programs(t)
	s := newSystem(t, bin)
	s.up("--gateways", "2", "--shards", fmt.Sprint(*shards))
	if !s.whole() {
		t.Error("not whole when ready")
	}
	t.Run("a second up says what is running", func(*testing.T) {
		s.says([]string{"up", "--network", s.network}, "running already", "Ready in", "127."+s.network+".1.1[1-2]:8080")
	})
	t.Run("two gateways hold one limit", s.holdsOneLimit)
	t.Run("all pods have the rules", func(t *testing.T) {
		for _, p := range s.status().Parts {
			if service := p.Admin != ""; service && (p.Revision == nil || *p.Revision != 1) {
				t.Errorf("%s has no rules of revision 1: %+v", p.Name, p)
			}
		}
	})
	t.Run("a killed primary is survived", s.survivesKilledPrimary)
	t.Run("a partition is an outage of the store", func(t *testing.T) {
		s.says([]string{"partition", "home"}, "do not reach each other")
		if got := s.login(1); got != http.StatusServiceUnavailable {
			t.Errorf("a login, which fails closed: %d, want 503", got)
		}
		if got := s.ask(1, http.MethodGet, "/v1/labels", "demo-growth", ""); got != http.StatusOK {
			t.Errorf("a request, which fails open: %d, want 200", got)
		}
		s.says([]string{"heal", "home"}, "home reaches its Redis")
		s.eventually("logins are counted again", func() bool { return s.login(1) != http.StatusServiceUnavailable })
	})
	t.Run("parts are frozen, killed and come back by their names", s.partsComeBack)
	t.Run("nothing is left", s.leavesNothing)
	t.Run("a killed owner is cleared after", func(t *testing.T) { killedOwnerIsClearedAfter(newSystem(t, bin)) })
	t.Run("an interrupt ends the foreground", func(t *testing.T) { signalEndsTheForeground(newSystem(t, bin), os.Interrupt) })
	t.Run("a closed terminal ends the foreground", func(t *testing.T) {
		if signal.Ignored(unix.SIGHUP) {
			t.Skip("run by nohup, which is what dev is told by this signal being ignored")
		}
		signalEndsTheForeground(newSystem(t, bin), unix.SIGHUP)
	})
}

func (s *system) holdsOneLimit(t *testing.T) {
	begin, admitted := time.Now(), 0
	for range freeBurst {
		for gateway := 1; gateway <= 2; gateway++ {
			switch status := s.ask(gateway, http.MethodGet, "/v1/labels", "demo-free", ""); status {
			case http.StatusOK:
				admitted++
			case http.StatusTooManyRequests:
			default:
				t.Errorf("gateway %d: %d", gateway, status)
			}
		}
	}
	most := freeBurst + freeRate*time.Since(begin).Seconds() + 1
	if float64(admitted) > most || admitted < freeBurst {
		t.Errorf("admitted %d of %d, want %d to %.1f", admitted, 2*freeBurst, freeBurst, most)
	}
}

func (s *system) survivesKilledPrimary(t *testing.T) {
	s.says([]string{"kill-primary", "home", "--account", "acct_free"}, "is dead, which served slot", "takes over")
	for gateway := 1; gateway <= 2; gateway++ {
		if got := s.ask(gateway, http.MethodGet, "/v1/labels", "demo-free", ""); got != http.StatusOK && got != http.StatusTooManyRequests {
			t.Errorf("gateway %d without the primary: %d", gateway, got)
		}
	}
	s.eventually("a replica has taken over", func() bool { return s.status().Regions[0].Slots == testenv.Slots })
	s.says([]string{"heal"}, "runs again")
	s.eventually("the cluster is whole", s.whole)
}

func (s *system) partsComeBack(t *testing.T) {
	s.run("freeze", "home-gateway-2")
	s.run("freeze", "postgres")
	s.run("kill", "home-checker")
	s.run("restart", "home-gateway-1") // none of these has ended by itself
	for name, want := range map[string]stack.State{"home-gateway-2": stack.Frozen, "postgres": stack.Frozen, "home-checker": stack.Dead, "rules": stack.Running} {
		if got := s.part(name).State; got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if out, err := s.try("freeze", "home-checker"); err == nil || !strings.Contains(out, "dead") {
		t.Errorf("the dead was frozen: %s", out)
	}
	if out, err := s.try("kill", "nobody"); err == nil || !strings.Contains(out, `"nobody"`) {
		t.Errorf("nobody was killed: %s", out)
	}
	s.says([]string{"thaw"}, "home-gateway-2", "postgres")
	s.says([]string{"restart", "home-checker"}, "runs again")
	s.says([]string{"heal"}, "nothing to heal")
	s.says([]string{"logs", "home-checker", "-n", "500"}, "msg=listening")

	if err := unix.Kill(s.part("home-checker").PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	said := func(name string) bool {
		log, err := os.ReadFile(filepath.Join(s.dir, "dev.log"))
		return err == nil && strings.Contains(string(log), name+" has ended by itself")
	}
	s.eventually("the owner says that the checker has ended", func() bool { return said("home-checker") })
	if said("home-gateway-1") || s.part("home-checker").State != stack.Dead {
		t.Errorf("of others too, or it is %s", s.part("home-checker").State)
	}
	s.says([]string{"heal"}, "home-checker runs again")
}

func (s *system) leavesNothing(t *testing.T) {
	status := s.status()
	memory, err := filepath.EvalSymlinks(filepath.Join(s.dir, "home-redis", "nodes"))
	if err != nil {
		t.Fatal(err)
	}
	within, err := statedir.Within(s.dir)
	if err != nil || len(within) < len(status.Parts) {
		t.Errorf("%d processes work in the folder, of %d: %v", len(within), len(status.Parts), err)
	}
	owner, err := statedir.Owner(s.dir)
	if err != nil || owner.PID != status.PID {
		t.Errorf("the owner is %+v, want process %d: %v", owner, status.PID, err)
	}
	s.says([]string{"down"}, "nothing is left")
	at, cancel := context.WithCancel(t.Context())
	cancel() // no waiting
	for _, p := range append(within, owner) {
		if err := p.Wait(at); err != nil {
			t.Errorf("process %d is left: %v", p.PID, err)
		}
	}
	for _, p := range status.Parts {
		for _, address := range []string{p.Address, p.Admin} {
			if address == "" {
				continue
			}
			l, err := net.Listen("tcp", address)
			if err != nil {
				t.Errorf("%s of %s is left: %v", address, p.Name, err)
				continue
			}
			l.Close()
		}
	}
	for _, path := range []string{s.dir, memory} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	s.says([]string{"down"}, "nothing is running")
}

// An owner that is killed takes all with it, and down clears what it has left. TLS and
// ACLs let the pods in.
func killedOwnerIsClearedAfter(s *system) {
	s.up("--gateways", "1", "--shards", "1", "--replicas", "0", "--tls")
	if got := s.login(1); got != http.StatusOK {
		s.t.Errorf("a login, which needs an answer of the store: %d", got)
	}
	memory, err := filepath.EvalSymlinks(filepath.Join(s.dir, "home-redis", "nodes"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.killOwner()
	if out, err := s.try("status"); err == nil || !strings.Contains(out, "nothing is running") {
		s.t.Errorf("status: %v, %s", err, out)
	}
	s.says([]string{"down"}, "nothing is left")
	for _, path := range []string{s.dir, memory} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			s.t.Errorf("%s is left: %v", path, err)
		}
	}
}

// killOwner kills the owner and waits until all has ended with it.
func (s *system) killOwner() {
	s.t.Helper()
	owner, err := statedir.Owner(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	within, err := statedir.Within(s.dir)
	if err != nil || len(within) == 0 {
		s.t.Fatalf("%d processes work in the folder: %v", len(within), err)
	}
	if err := owner.Signal(unix.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	for _, p := range append(within, owner) {
		if err := p.Wait(ctx); err != nil {
			s.t.Errorf("process %d outlives its owner: %v", p.PID, err)
		}
	}
}

// In the foreground it runs until a signal, and then ends everything, also if who has
// read what it says is gone.
func signalEndsTheForeground(s *system, end os.Signal) {
	t := s.t
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.bin, "dev"), "--dir", s.dir, "up", "--network", s.network,
		"--regions", "home", "--shards", "1", "--replicas", "0", "--gateways", "1")
	cmd.Dir = ".."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("it is up", func() bool {
		text, err := s.try("status", "--json")
		var status stack.Status
		return err == nil && json.Unmarshal([]byte(text), &status) == nil && status.Took > 0
	})
	if err := errors.Join(out.Close(), cmd.Process.Signal(end)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v after %v: %v", cmd, end, err)
	}
	if _, err := os.Lstat(s.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}
