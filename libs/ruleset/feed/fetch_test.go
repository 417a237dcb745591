package feed

import (
	"strings"
	"testing"
	"testing/synctest"
)

// Who fetches has the rules of the first address that answers, and else is told what
// is wrong with each.
func TestFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "two")
		rules, err := Fetch(t.Context(), fleet.config("pod-1", "one", "two"))
		if err != nil || rules.Revision() != 7 {
			t.Errorf("got %v, %v", rules, err)
		}
		if _, err := Fetch(t.Context(), fleet.config("pod-1", "one", "three")); err == nil || !strings.Contains(err.Error(), "http://one: ") || !strings.Contains(err.Error(), "http://three: ") {
			t.Errorf("got %v", err)
		}
		fleet.setRate("a", -1)
		if _, err := Fetch(t.Context(), fleet.config("pod-1", "two")); err == nil || !strings.Contains(err.Error(), "rule a: ") {
			t.Errorf("got %v", err)
		}
	})
}
