package ruleset

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// journal is a slog.Handler that hands each record to the test.
type journal chan slog.Record

func (journal) Enabled(context.Context, slog.Level) bool        { return true }
func (j journal) Handle(_ context.Context, r slog.Record) error { j <- r; return nil }
func (j journal) WithAttrs([]slog.Attr) slog.Handler            { return j }
func (j journal) WithGroup(string) slog.Handler                 { return j }

// next returns the next record. A reload takes less than a second; the deadline
// only keeps a broken one from hanging.
func (j journal) next(t *testing.T) slog.Record {
	t.Helper()
	select {
	case r := <-j:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was reloaded for 20 s")
		return slog.Record{}
	}
}

// open runs a Live on the file at path until the test ends.
func open(t *testing.T, path string) (*Live, journal) {
	t.Helper()
	log := make(journal, 100)
	live, err := Open(path, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); live.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return live, log
}

// withRate is a rule file with a rate of 10 to 99 a second, always as long.
func withRate(rate string) []byte {
	return []byte(strings.Replace(before, "rate: 10/s", "rate: "+rate+"/s", 1))
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// must fails the test on an error of the file system.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// However the file is replaced, the new rules come into force.
func TestReloadHoweverTheFileIsReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string, text []byte){
		"written in place": write,
		"renamed over": func(t *testing.T, path string, text []byte) {
			write(t, path+".new", text)
			must(t, os.Rename(path+".new", path))
		},
		"deleted and made again": func(t *testing.T, path string, text []byte) {
			must(t, os.Remove(path))
			write(t, path, text)
		},
		"same size and time": func(t *testing.T, path string, text []byte) {
			info, err := os.Stat(path)
			must(t, err)
			write(t, path, text)
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		},
		"in parts": func(t *testing.T, path string, text []byte) {
			file, err := os.Create(path)
			must(t, err)
			for part := 0; part < len(text); part += 100 {
				_, err := file.Write(text[part:min(part+100, len(text))])
				must(t, err)
			}
			must(t, file.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "rules.yaml")
			write(t, path, withRate("10"))
			live, log := open(t, path)
			for i, rate := range []string{"11", "12"} {
				replace(t, path, withRate(rate))
				if r := log.next(t); r.Message != "rules reloaded" {
					t.Fatalf("logged %q, want a reload", r.Message)
				}
				set := live.Current()
				if got := set.Rules()[0].Limit.Rate.String(); got != rate+"/s" || set.Revision() != int64(i+2) {
					t.Fatalf("rate %s at revision %d, want %s/s at %d", got, set.Revision(), rate, i+2)
				}
			}
		})
	}
}

// Kubernetes swaps a symbolic link to a directory above the file's own link.
func TestReloadOfAConfigMap(t *testing.T) {
	dir := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	for version, rate := range map[string]string{"..1": "10", "..2": "11"} {
		must(t, os.Mkdir(at(version), 0o700))
		write(t, at(version, "rules.yaml"), withRate(rate))
	}
	must(t, os.Symlink("..1", at("..data")))
	must(t, os.Symlink(filepath.Join("..data", "rules.yaml"), at("rules.yaml")))
	live, log := open(t, at("rules.yaml"))
	must(t, os.Symlink("..2", at("..data_tmp")))
	must(t, os.Rename(at("..data_tmp"), at("..data")))
	must(t, os.RemoveAll(at("..1")))
	log.next(t)
	if got := live.Current().Rules()[0].Limit.Rate; got != 11 {
		t.Errorf("rate %v, want 11/s", got)
	}
}

// A file that is broken or gone takes no rule away, is logged once, and is
// forgotten when it is mended.
func TestBadFileLeavesTheRulesInForce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, withRate("10"))
	live, log := open(t, path)
	first := live.Current()
	for _, step := range []struct {
		name, want string
		do         func()
	}{
		{"empty", "rule file has faults: the rules in force stay", func() { write(t, path, nil) }},
		{"half", "rule file has faults: the rules in force stay", func() { write(t, path, withRate("11")[:200]) }},
		{"gone", "rule file cannot be read: the rules in force stay", func() { must(t, os.Remove(path)) }},
		{"too long", "rule file cannot be read: the rules in force stay", func() {
			write(t, path, nil)
			must(t, os.Truncate(path, 100<<20))
		}},
	} {
		step.do()
		if r := log.next(t); r.Message != step.want || r.Level != slog.LevelError {
			t.Fatalf("%s: logged %q, want %q", step.name, r.Message, step.want)
		}
		if live.Current() != first {
			t.Fatalf("%s: the rules changed", step.name)
		}
	}
	write(t, path, withRate("12"))
	if r := log.next(t); r.Message != "rules reloaded" || live.Current().Rules()[0].Limit.Rate != 12 {
		t.Errorf("logged %q, rate %v; want the mended rules", r.Message, live.Current().Rules()[0].Limit.Rate)
	}
}

// One bad rule in a file does not hold up the others.
func TestPartlyBadFileIsAppliedAsFarAsItGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, withRate("10"))
	live, log := open(t, path)
	write(t, path, []byte(strings.Replace(string(withRate("-1")), "rate: 100/s", "rate: 120/s", 1)))
	r := log.next(t)
	if want := "rule file has faults: what is faulty stays as it was, the rest is in force"; r.Message != want {
		t.Errorf("logged %q, want %q", r.Message, want)
	}
	rules := live.Current().Rules()
	if rules[0].Limit.Rate != 10 || rules[1].Limit.Rate != 120 {
		t.Errorf("rates %v and %v, want the old of the bad rule, 10, and the new of the other, 120", rules[0].Limit.Rate, rules[1].Limit.Rate)
	}
}

// The same content again, or the same rules under another comment, is no reload.
func TestUnchangedContentIsNoReload(t *testing.T) {
	log := make(journal, 10)
	live, err := OpenBytes("rules.yaml", withRate("10"))
	must(t, err)
	live.path, live.log = "rules.yaml", slog.New(log)
	first := live.Current()
	live.reload(withRate("10"), nil)
	live.reload(append([]byte("# new\n"), withRate("10")...), nil)
	if live.Current() != first || len(log) > 0 {
		t.Errorf("revision %d, %d records; want neither a change nor a word", live.Current().Revision(), len(log))
	}
}

// Without a file there is nothing to follow: Run waits for its end.
func TestStaticRulesRunUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live, err := OpenBytes("embedded", withRate("10"))
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		live.Run(ctx)
		if time.Since(start) != time.Hour {
			t.Errorf("ran for %v, want until its context ended", time.Since(start))
		}
	})
}

// The first load refuses any fault, names them all and the file.
func TestOpenRefusesFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if _, err := Open(path, slog.New(journal(nil))); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want that %s is missing", err, path)
	}
	write(t, path, []byte(strings.NewReplacer("burst: 20}", "burst: 0}", "rate: 5/s", "rate: 0/s").Replace(before)))
	_, err := Open(path, slog.New(journal(nil)))
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 2 || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want two faults of %s", err, path)
	}
}
