package gateway

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/shiplane/limits/libs/testenv/port"
)

// TestReadmeDoesWhatItShows types the README's commands, each in a shell at the
// root of the repository, and compares what they print: exactly, but for times
// and for numbers that time decides. Only the ports differ, so that it runs
// beside anything.
func TestReadmeDoesWhatItShows(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	for _, tool := range []string{"bash", "curl", "make", "go", "redis-server", "redis-cli"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the README needs %s: %v", tool, err)
		}
	}
	addresses := []string{
		"127.0.0.1:8080", "127.0.0.1:9080", "127.0.0.1:8088", "127.0.0.1:9088",
		"127.0.0.1:8091", "127.0.0.1:9091", "127.0.0.1:8092", "127.0.0.1:9092",
		"127.0.0.1:8082", "127.0.0.1:9082", "127.0.0.1:8093", "127.0.0.1:9093", "127.0.0.1:8094", "127.0.0.1:9094",
		"127.0.0.1:8081", "127.0.0.1:8085", "127.0.0.1:9081", "127.0.0.1:6379",
	}
	var replaced []string
	for _, address := range addresses {
		p, err := port.Reserve("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Release)
		replaced = append(replaced, address, p.String())
	}
	// The store's port also stands by itself.
	_, redis, _ := net.SplitHostPort(replaced[len(replaced)-1])
	replaced = append(replaced, "--port 6379", "--port "+redis, "-p 6379", "-p "+redis)
	env := append(os.Environ(), "SHIPLANE_LISTEN="+replaced[1], "SHIPLANE_ADMIN="+replaced[3])
	steps := stepsOf(strings.NewReplacer(replaced...).Replace(string(text)))
	if len(steps) < 8 {
		t.Fatalf("found %d commands in the README", len(steps))
	}
	for _, s := range steps {
		c := exec.CommandContext(t.Context(), "bash", "-c", s.command)
		c.Dir, c.Env = "..", env
		if slices.ContainsFunc(servers, func(server string) bool { return strings.HasPrefix(s.command, server) }) {
			background(t, c, s)
			continue
		}
		output, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", s.command, err, output)
		}
		if diff := cmp.Diff(stable(s.output), stable(string(output))); diff != "" {
			t.Errorf("%s (-README +printed):\n%s", s.command, diff)
		}
	}
}

// servers are how the commands begin that do not end.
var servers = []string{"make run", "bin/gateway --", "bin/rules --", "bin/checker --", "redis-server "}

// step is a command and what the README says that it prints.
type step struct{ command, output string }

// stepsOf reads the blocks of kind console: "$ " begins a command, "> " goes on
// with it, anything else is printed.
func stepsOf(text string) (steps []step) {
	for _, block := range strings.Split(text, "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			last := len(steps) - 1
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: command})
			} else if more, ok := strings.CutPrefix(line, "> "); ok {
				steps[last].command += more
			} else {
				steps[last].output += line
			}
		}
	}
	return steps
}

// background starts a server and waits until it has printed the step's output,
// among other lines. It is stopped, as by Ctrl-C, when the test ends.
func background(t *testing.T, c *exec.Cmd, s step) {
	t.Helper()
	printed := &logs{}
	c.Stdout, c.Stderr = printed, printed
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	t.Cleanup(func() {
		receive(t, ended, "end of "+s.command)
		if t.Failed() {
			t.Logf("%s printed:\n%s", s.command, printed)
		}
	})
	missing := func() []string {
		lines := stable(printed.String())
		return slices.DeleteFunc(stable(s.output), func(want string) bool { return slices.Contains(lines, want) })
	}
	for range 3 { // deadlines: make run compiles first
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", s.command, printed)
		default:
		}
		if waitFor(func() bool { return len(missing()) == 0 }) {
			return
		}
	}
	t.Fatalf("%s did not print %q, but:\n%s", s.command, missing(), printed)
}

// changing is what differs from run to run.
var changing = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?m)^Date: .*\n`), ""},
	{regexp.MustCompile(`\b(r|t)=\d+`), "$1=N"},
	{regexp.MustCompile(`(?m)^ +\d+ (\d{3})$`), "N times $1"},
	{regexp.MustCompile(`time=\S+`), "time=T"},
	{regexp.MustCompile(`(?m)^\d+:M .* \* `), "M * "},
	{regexp.MustCompile(`(X-Request-Id: |urn:shiplane:request:)[0-9a-f]{32}`), "${1}ID"},
}

// stable returns the lines of an output, without what changes.
func stable(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.instead)
	}
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
