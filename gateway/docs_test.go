package gateway

import (
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
