package keys

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const deadline = 20 * time.Second // what a test waits for comes long before

func entry(key, account, plan string) string {
	return fmt.Sprintf("- hash: %s\n  account: %s\n  plan: %s\n", Hash(key), account, plan)
}

// TestKeyIsFoundByWhatWasPresented: a key is known by its hash, whatever bytes it
// is made of, and nothing like it is.
func TestKeyIsFoundByWhatWasPresented(t *testing.T) {
	odd := `{br}ace"s \ and	spaces ünï` + "\x00"
	set, err := Parse([]byte("---\n" + entry("one", "acct_7Q2", "growth") + "  name: backend\n" +
		"- {hash: \"" + Hash(odd) + "\", account: 1e3, plan: free}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Key{Account: "acct_7Q2", Plan: "growth", Name: "backend"}, set.Find("one")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Key{Account: "1e3", Plan: "free"}, set.Find(odd)); diff != "" {
		t.Error(diff)
	}
	for _, unknown := range []string{"", "One", "one ", Hash("one"), "one\x00"} {
		if k := set.Find(unknown); k != nil {
			t.Errorf("%q is taken for a key of %s", unknown, k.Account)
		}
	}
}

// TestAllFaultsAreNamedWithTheirLines: one look at the error mends the file.
func TestAllFaultsAreNamedWithTheirLines(t *testing.T) {
	text := entry("one", "acct_1", "growth") + // lines 1 to 3
		"- hash: demo-free\n  account: has space\n  plan: anonymous\n" +
		"- account: acct_2\n  plan: free\n  colour: red\n  plan: free\n" +
		"- just text\n" +
		entry("one", "acct_1", "free") +
		"- hash: sha256:" + strings.Repeat("g", 64) + "\n  account: [a]\n  plan:\n"
	_, err := Parse([]byte(text))
	if err == nil {
		t.Fatal("no error")
	}
	want := `10 faults
  4:9: keys[1].hash: has 9 characters: want sha256: and 64 hexadecimal digits, as gateway hash-key prints
  5:12: keys[1].account is "has space": want 1 to 64 visible ASCII characters, no spaces
  6:9: keys[1].plan is "anonymous": want a plan of the rules, not anonymous
  9:3: keys[2].colour: unknown field: want hash, account, plan or name
  10:3: keys[2].plan: stands twice
  11:3: keys[3]: want a mapping of hash, account, plan and perhaps name
  14:9: keys[4].plan is "free": account "acct_1" has plan "growth" in line 3: an account has one plan
  12:9: keys[4].hash: is the key of line 1
  16:3: keys[5].account: want a text
  17:3: keys[5].plan: want a text`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if strings.Contains(err.Error(), "demo-free") {
		t.Error("the error repeats what may be a key")
	}
}

// TestBadFilesAreRefusedWhole: what is no key file says so in one line.
func TestBadFilesAreRefusedWhole(t *testing.T) {
	good := entry("one", "acct_1", "growth")
	for name, c := range map[string]struct{ text, want string }{
		"empty":         {"", "keys: holds no list of keys"},
		"only comments": {"# nothing\n", "keys: holds no list of keys"},
		"a mapping":     {"hash: x\n", "keys: holds no list of keys"},
		"not UTF-8":     {good + "\xff\n", "keys: is not UTF-8"},
		"a NUL":         {good + "\x00", "keys: holds a NUL byte"},
		"truncated":     {good + "- {hash: sha", "4:3: keys: is no valid YAML"},
		"no plan":       {good[:strings.LastIndex(good, "  plan")], "1:7: keys[0].plan: is missing"},
		"too large":     {strings.Repeat("# comment\n", FileMax/10+1), "keys: has 16777220 bytes: at most 16777216 are allowed"},
		"an alias":      {"- &a b\n- *a\n", "1:3: keys is \"&\": is not supported here"},
		"a nested list": {"- - a\n", "1:3: keys is \"-\": begins an entry out of line: want all in column 1"},
		"deep":          {"- " + strings.Repeat("[", 1000), "1:5: keys is \"[\": is nested too deep"},
		"two documents": {good + "---\n" + good, "5:1: keys: has a second document: want one"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %s", name, err, c.want)
		}
	}
}

// TestUnknownPlanIsAFault: a key whose plan no rule knows would have no limit.
func TestUnknownPlanIsAFault(t *testing.T) {
	text := entry("one", "acct_1", "growth") + entry("two", "acct_2", "gold")
	_, err := OpenBytes("keys.yaml", []byte(text), func() []string { return []string{"free", "growth"} })
	want := `key file keys.yaml: 6:9: keys[1].plan is "gold": no such plan: the rules know ["free" "growth"]`
	if err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// TestGeneratedKeysCanBeUsed: they differ, can be presented and stand in a file.
func TestGeneratedKeysCanBeUsed(t *testing.T) {
	one, other := Generate(), Generate()
	if one == other || len(one) < 40 {
		t.Errorf("generated %s and %s", one, other)
	}
	if err := Validate(one); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "a b", "a\x00", "ü", strings.Repeat("x", presentedMax+1), "a\n"} {
		if err := Validate(bad); err == nil {
			t.Errorf("%q can be presented", bad)
		} else if bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

// lines counts log lines that hold a text.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(of string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), of)
}

var _ io.Writer = (*lines)(nil)

func poll(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(deadline); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", deadline, what)
		}
	}
}

// TestReloadKeepsTheLastGoodKeys: a changed file is in force at once, a bad one
// changes nothing, and keys of a plan that arrives later work when it does.
func TestReloadKeepsTheLastGoodKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	var gold atomic.Bool
	plans := func() []string {
		if gold.Load() {
			return []string{"free", "gold"}
		}
		return []string{"free"}
	}
	log := &lines{}
	write(entry("one", "acct_1", "free"))
	live, err := Open(path, plans, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { live.Run(t.Context()) })
	t.Cleanup(running.Wait)
	knows := func(keys ...string) bool {
		var found []string
		for _, k := range []string{"one", "two", "three"} {
			if live.Current().Find(k) != nil {
				found = append(found, k)
			}
		}
		return slices.Equal(found, keys)
	}

	write(entry("one", "acct_1", "free") + entry("two", "acct_2", "free"))
	poll(t, "the second key works", func() bool { return knows("one", "two") })

	write(entry("three", "acct_3", "free") + "- oops\n")
	poll(t, "the fault is logged", func() bool { return log.count("the keys in force stay") == 1 })
	if !knows("one", "two") {
		t.Error("a bad file changed the keys")
	}

	write(entry("three", "acct_3", "gold"))
	poll(t, "the unknown plan is logged", func() bool { return log.count("no such plan") == 1 })
	if !knows("one", "two") {
		t.Error("keys of an unknown plan are in force")
	}
	gold.Store(true)
	poll(t, "the third key works once its plan is known", func() bool { return knows("three") })
}

// TestKeysThatWaitCostNothing: while the plans of the rules stay, keys that lack one
// are not looked at again; and each change of the plans is seen.
func TestKeysThatWaitCostNothing(t *testing.T) {
	known := []string{"free"}
	text := []byte(entry("one", "acct_1", "free"))
	live, err := OpenBytes("keys.yaml", text, func() []string { return known })
	if err != nil {
		t.Fatal(err)
	}
	live.log = slog.New(slog.DiscardHandler)
	live.reload([]byte(entry("two", "acct_2", "gold")+entry("three", "acct_3", "iron")), nil)
	waits := func(when string) {
		t.Helper()
		live.retry()
		looked := live.waiting.plans
		live.waiting.plans = nil // would be found without fault
		live.retry()
		if live.waiting == nil {
			t.Fatalf("%s: keys were looked at again with the same plans", when)
		}
		live.waiting.plans = looked
	}
	waits("at first")
	known = []string{"free", "gold"}
	waits("with one of two plans")
	known = []string{"free", "gold", "iron"}
	live.retry()
	if live.Current().Find("two") == nil || live.waiting != nil {
		t.Error("keys are not in force though their plans are known")
	}
}

// FuzzKeys: whatever a key file holds, Parse ends, and what it accepts holds only
// keys that can be counted.
func FuzzKeys(f *testing.F) {
	f.Add(entry("one", "acct_1", "growth") + "  name: x\n")
	f.Add("- {hash: sha256:00, account: a, plan: b}\n- [a]\n")
	f.Add("- &a b\n- *a\n---\n? x\n: y\n- !t |\n  z\n")
	f.Add("- hash: \"\\x00\"\n  account: 'it''s'\n  plan: >-\n    folded\n")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse([]byte(text))
		if (set == nil) == (err == nil) {
			t.Fatalf("set %v, error %v", set, err)
		}
		if err != nil {
			return
		}
		for _, k := range set.keys {
			if !visible(k.Account) || !visible(k.Plan) || len(k.Name) > nameMax {
				t.Errorf("accepted %+v", k)
			}
		}
	})
}
