package dev

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/shiplane/limits/dev/internal/stack"
)

// welcome says what runs and what to type next.
func welcome(w io.Writer, s *stack.Status) {
	home := s.Regions[0]
	host, port, _ := net.SplitHostPort(home.Gateways[0])
	spread := host
	if n := len(home.Gateways); n > 1 {
		last, _, _ := net.SplitHostPort(home.Gateways[min(n, 9)-1])
		spread = fmt.Sprintf("%s[%s-%s]", strings.TrimSuffix(host, "1"), host[len(host)-1:], last[len(last)-1:])
	}
	fmt.Fprintf(w, `
  Ready in %[1]v: %[2]d regions. Counters lie in a Redis Cluster a region, rules in
  PostgreSQL behind the rules service in %[3]s. The keys demo-free, demo-growth
  and demo-enterprise are known to all gateways.

  Try, in another terminal:

    one request          curl -si -H 'X-Api-Key: demo-free' http://%[4]s/v1/labels
    spread over pods     curl -s -o /dev/null -w '%%{http_code}\n' -H 'X-Api-Key: demo-free' 'http://%[5]s:%[6]s/v1/labels?[1-20]' | sort | uniq -c
    read the rules       curl -s -H @%[7]s %[8]s%[9]s/v1/rules
    look at it           bin/dev status
    break it             bin/dev kill-primary %[3]s --account acct_free
    mend it              bin/dev heal
    read a log           bin/dev logs %[3]s-gateway-1 -f

  docs/dev.md is a tour of ten minutes. It ends with Ctrl-C here, or bin/dev down.

`, s.Took.Round(time.Second/10), len(s.Regions), home.Name, home.Gateways[0], spread, port,
		filepath.Join(s.Dir, stack.AuthFile), caFlag(s), s.RulesURL)
}

// caFlag is what curl needs to trust the rules service.
func caFlag(s *stack.Status) string {
	if !strings.HasPrefix(s.RulesURL, "https:") {
		return ""
	}
	return "--cacert " + filepath.Join(s.Dir, "tls", "ca.pem") + " "
}
