package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// What Terraform left behind in the tree is not copied: a lock would refuse the
// provider that stands in, a state or a file of values would be tested instead.
func TestOnlyTheConfigurationIsCopied(t *testing.T) {
	source, to := t.TempDir(), t.TempDir()
	kept := []string{"modules/network/tests/network.tftest.hcl", "regions/us-east/main.tf"}
	for _, file := range append([]string{
		"regions/us-east/.terraform.lock.hcl", "regions/us-east/terraform.tfstate", "regions/us-east/terraform.tfvars", "regions/us-east/.terraform/modules/a/main.tf",
	}, kept...) {
		path := filepath.Join(source, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyConfiguration(to, source); err != nil {
		t.Fatal(err)
	}
	var copied []string
	err := fs.WalkDir(os.DirFS(to), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			copied = append(copied, path)
		}
		return err
	})
	if err != nil || !slices.Equal(copied, kept) {
		t.Errorf("copied %v, %v, want %v", copied, err, kept)
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
