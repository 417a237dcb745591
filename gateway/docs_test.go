package gateway

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentNamesEveryFlag: docs/gateway.md and --help have the same flags, and
// every one its variable.
func TestDocumentNamesEveryFlag(t *testing.T) {
	text, err := os.ReadFile("../docs/gateway.md")
	if err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	help, _ := printed(t, 0, "--help")
	names := func(pattern, text string) (found []string) {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, match[1])
		}
		slices.Sort(found)
		return found
	}
	documented := names("(?m)^\\| `--([a-z0-9-]+)` \\|", string(text))
	helped := slices.DeleteFunc(names(`(?m)^(?: {6}|  -[a-z], )--(?:\[no-])?([a-z0-9-]+)`, help), func(name string) bool { return name == "help" })
	if diff := cmp.Diff(helped, documented); diff != "" {
		t.Errorf("flags (-help +document):\n%s", diff)
	}
	for _, name := range helped {
		variable := "($SHIPLANE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + ")"
		if !strings.Contains(help, variable) {
			t.Errorf("--help lacks the variable %s of --%s", variable, name)
		}
	}
	// Every flag that a recipe uses is one.
	for _, used := range names("(?:^|[ `(])--([a-z0-9-]+)", string(text)) {
		commands := []string{"json", "account", "plan", "ip", "user"} // of check, explain and key
		negated, isNegated := strings.CutPrefix(used, "no-")
		if isNegated && strings.Contains(help, "--[no-]"+negated) {
			continue
		}
		if !slices.Contains(helped, used) && !slices.Contains(commands, used) {
			t.Errorf("the document uses --%s, which is no flag", used)
		}
	}
}

// TestDocumentNamesEveryMetric: what is served to be scraped is explained in
// docs/gateway.md, and its rules for Prometheus use nothing else.
func TestDocumentNamesEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../docs/gateway.md")
	if err != nil {
		t.Skipf("not in the source tree: %v", err)
	}
	g := start(t, echoes)
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "small-1").want(t, 200, "")
	g.do("GET", "/v1/items/1", "", "X-Api-Key", "wrong").want(t, 401, "")
	r, err := http.NewRequest(http.MethodGet, g.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	served := regexp.MustCompile(`(?m)^# TYPE (shiplane_\w+)`).FindAllStringSubmatch(send(t, http.DefaultTransport, r).body, -1)
	if len(served) < 10 {
		t.Errorf("%d metrics are served, want 10 at least", len(served))
	}
	for _, match := range served {
		if !strings.Contains(string(text), "`"+match[1]+"`") {
			t.Errorf("docs/gateway.md does not explain %s", match[1])
		}
	}
	_, rules, _ := strings.Cut(string(text), "```yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	used := regexp.MustCompile(`shiplane_\w+`).FindAllString(rules, -1)
	if len(used) == 0 {
		t.Error("the document has no rules for Prometheus")
	}
	for _, name := range used {
		if !slices.ContainsFunc(served, func(match []string) bool { return match[1] == name }) {
			t.Errorf("a rule uses %s, which is not served", name)
		}
	}
}
