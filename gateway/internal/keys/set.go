package keys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/shiplane/limits/libs/ruleset"
)

// hashPrefix says what a hash is of, should there ever be another.
const hashPrefix = "sha256:"

// Key is what is known about one key, but for the key itself.
type Key struct {
	Account string // who is counted
	Plan    string // whose limits apply
	Name    string // for people; may be empty
}

// Set is all keys of a file. It is immutable and safe for concurrent use.
type Set struct {
	keys  map[[sha256.Size]byte]*Key
	plans []planUse
}

// planUse is where a file names a plan.
type planUse struct {
	entry        int
	plan         string
	line, column int
}

// Find returns the key that was presented, nil if it is unknown.
func (s *Set) Find(presented string) *Key {
	return s.keys[sha256.Sum256([]byte(presented))]
}

// Len returns the number of keys.
func (s *Set) Len() int { return len(s.keys) }

// CheckPlans returns a fault for each key whose plan is none of plans; the error
// is a ruleset.Faults.
func (s *Set) CheckPlans(plans []string) error {
	var faults ruleset.Faults
	for _, use := range s.plans {
		if !slices.Contains(plans, use.plan) {
			faults = append(faults, ruleset.Fault{
				Path: fmt.Sprintf("keys[%d].plan", use.entry), Line: use.line, Column: use.column,
				Value: fmt.Sprintf("%q", use.plan), Problem: fmt.Sprintf("no such plan: the rules know %q", plans),
			})
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// knownTo reports whether CheckPlans has no fault, without making any: a file may hold
// a hundred thousand.
func (s *Set) knownTo(plans []string) bool {
	return !slices.ContainsFunc(s.plans, func(use planUse) bool { return !slices.Contains(plans, use.plan) })
}

// Hash returns what the key file holds of a key.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// Entry returns the key file's entry of a key, or why it would not be accepted.
func Entry(presented string, key Key) (string, error) {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	entry := fmt.Sprintf("- hash: %s\n  account: %s\n  plan: %s\n", Hash(presented), quote(key.Account), quote(key.Plan))
	if key.Name != "" {
		entry += "  name: " + quote(key.Name) + "\n"
	}
	set, err := Parse([]byte(entry))
	if err != nil {
		return "", err
	}
	if got := set.Find(presented); *got != key {
		return "", fmt.Errorf("name %q would be read as %q: want one line of text", key.Name, got.Name)
	}
	return entry, nil
}

// Generate returns a new key: 256 random bits, which nobody guesses.
func Generate() string {
	var bits [32]byte
	rand.Read(bits[:]) // never fails, as crypto/rand says
	return "slk_" + base64.RawURLEncoding.EncodeToString(bits[:])
}

// presentedMax bounds a key, in bytes; it has to fit into the headers of a request.
const presentedMax = 1024

// Validate reports a key that no request could present: empty, above 1024 bytes,
// or with bytes that a header value cannot hold. The error does not show the key.
func Validate(key string) error {
	if key == "" || len(key) > presentedMax {
		return fmt.Errorf("the key has %d bytes: want 1 to %d", len(key), presentedMax)
	}
	for i := range len(key) {
		if c := key[i]; c <= ' ' || c > '~' {
			return fmt.Errorf("byte %d of the key is %#02x: want visible ASCII characters, no spaces", i+1, c)
		}
	}
	return nil
}
