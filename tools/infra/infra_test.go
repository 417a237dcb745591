package main

import (
	"errors"
	"strings"
	"testing"
)

// Where Terraform takes everything, no fault is caught, and each is told by name. A
// fault whose text the tree does not hold any more is told too, and never passes.
func TestAFaultThatNobodyCatchesFails(t *testing.T) {
	copied, err := prepare(t.TempDir(), "../../infra/terraform", "true", "main.go", "schema.json")
	if err != nil {
		t.Fatal(err)
	}
	err = faultsCaught(t.Context(), copied)
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != len(faults()) {
		t.Fatalf("want %d faults told, got %v", len(faults()), err)
	}
	if strings.Contains(err.Error(), "times, want once") {
		t.Errorf("the tree and the faults have drifted apart:\n%v", err)
	}
}

// After a fault the tree is as it was, so that the next one is planted alone.
func TestAFaultIsTakenOutAgain(t *testing.T) {
	copied, err := prepare(t.TempDir(), "../../infra/terraform", "false", "main.go", "schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range schemaFaults() {
		if said, err := copied.plant(t.Context(), f); said != "" || err != nil {
			t.Fatalf("%s: got %q, %v", f.name, said, err) // the command fails without a word
		}
		if _, err := copied.plant(t.Context(), f); err != nil {
			t.Errorf("%s: is still there: %v", f.name, err)
		}
	}
}

// Each region is planned with a topic of its own, and all but the home region with
// the home region's database.
func TestRegionsHaveWhatTheyNeed(t *testing.T) {
	for i, r := range regions() {
		vars := strings.Join(r.vars(), " ")
		if !strings.Contains(vars, "-var alarm_topic_arn=arn:aws:sns:"+r.name) || strings.Contains(vars, "rules_source_arn=") == (i == 0) {
			t.Errorf("%s: %s", r.name, vars)
		}
	}
}
