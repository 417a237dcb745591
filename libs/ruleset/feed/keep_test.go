package feed

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
)

// keptFrom runs a pod until its rules are on disk, and returns its configuration.
func keptFrom(t *testing.T, fleet *fleet, dir string) Config {
	t.Helper()
	cfg := fleet.config("pod-1", "one")
	cfg.Copy = filepath.Join(dir, "rules")
	stop := run(t, open(t, cfg))
	time.Sleep(time.Minute)
	stop()
	return cfg
}

// A restart has the last rules at once, from a file that only its owner can read, and
// asks the service for what came since then.
func TestRestartGoesOnFromDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "one")
		cfg := keptFrom(t, fleet, dir)
		info, err := os.Stat(cfg.Copy)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("the copy is %v, %v", info, err)
		}
		feed := open(t, cfg)
		if got := rate(feed, "a"); feed.Ready() != nil || got != 10 {
			t.Fatalf("after a restart rule a has rate %v, ready: %v", got, feed.Ready())
		}
		stop := run(t, feed)
		time.Sleep(time.Minute)
		if got := fleet.asked(); !slices.Equal(got, []int64{0, 7}) {
			t.Errorf("asked from revisions %v, want 0 and then 7", got)
		}
		fleet.setRate("a", 30)
		synctest.Wait()
		stop() // at once: what is in force is kept all the same
		if got := rate(open(t, cfg), "a"); got != 30 {
			t.Errorf("after the next restart rule a has rate %v", got)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("the folder holds %v, %v", left, err)
		}
	})
}

// Many changes in a row are written together: writing takes time by the size of all
// rules.
func TestChangesInARowAreWrittenTogether(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fleet := newFleet(t, someRules(), "one")
		cfg := keptFrom(t, fleet, dir)
		feed := open(t, cfg)
		run(t, feed)
		time.Sleep(time.Minute)
		written := map[int64]bool{}
		for i := range 100 {
			fleet.setRate("a", float64(i+1))
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			last, _, err := feed.readCopy()
			if err != nil {
				t.Fatal(err)
			}
			written[last.rules.Revision()] = true
		}
		if n := len(written); n < 3 || n > 5 { // in 10 s, with the one before
			t.Errorf("the file has held %d revisions", n)
		}
	})
}

// A copy without something that was refused asks for the whole: this program may take
// what the one before it did not.
func TestCopyThatLacksSomethingAsksForTheWhole(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		set := someRules()
		set.Rules[0].Algorithm = 99
		fleet := newFleet(t, set, "one")
		cfg := keptFrom(t, fleet, dir)
		feed := open(t, cfg)
		if got := rate(feed, "b"); got != 10 {
			t.Errorf("rule b has rate %v", got)
		}
		run(t, feed)
		synctest.Wait()
		if got := fleet.asked(); !slices.Equal(got, []int64{0, 0}) {
			t.Errorf("asked from revisions %v, want the whole", got)
		}
	})
}

// A copy that is cut off, altered, of another domain or no copy at all is told of and
// not used; the pod waits for the service as if there were none.
func TestBadCopyIsNotUsed(t *testing.T) {
	good, err := (&copyOnDisk{rules: someRules(), whole: true}).encode()
	if err != nil {
		t.Fatal(err)
	}
	other := someRules()
	other.Domain = "another"
	elsewhere, err := (&copyOnDisk{rules: other, whole: true}).encode()
	if err != nil {
		t.Fatal(err)
	}
	bad := map[string][]byte{
		"empty": {}, "cut off": good[:len(good)-1], "header only": good[:copyHeader-1], "of another domain": elsewhere,
		"text": []byte("rules:\n  - {id: a}\n"), "longer": append(slices.Clone(good), 0),
	}
	for _, at := range []int{0, len(copyMagic) - 1, len(copyMagic), copyHeader - 9, copyHeader - 1, copyHeader + 3} {
		altered := slices.Clone(good)
		altered[at] ^= 1
		bad["altered at "+string(rune('0'+at%10))] = altered
	}
	for name, text := range bad {
		t.Run(name, func(t *testing.T) {
			path, log := filepath.Join(t.TempDir(), "rules"), &logs{}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := (&fleet{}).config("pod-1", "one")
			cfg.Copy, cfg.Logger = path, slog.New(slog.NewTextHandler(log, nil))
			if feed := open(t, cfg); feed.Ready() == nil || log.count("is not used") != 1 {
				t.Errorf("ready: %v, log:\n%s", feed.Ready(), &log.text)
			}
		})
	}
}

// A folder that cannot be written to is told of once, and nothing else happens.
func TestCopyThatCannotBeWrittenIsToldOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fleet, log := newFleet(t, someRules(), "one"), &logs{}
		cfg := fleet.config("pod-1", "one")
		cfg.Copy, cfg.Logger = filepath.Join(dir, "missing", "rules"), slog.New(slog.NewTextHandler(log, nil))
		feed := open(t, cfg)
		run(t, feed)
		for range 10 {
			time.Sleep(time.Minute)
			fleet.setRate("a", 30)
		}
		if n := log.count("cannot be kept"); n != 1 {
			t.Errorf("told %d times:\n%s", n, &log.text)
		}
	})
}

// What is decoded is what was encoded, to the byte, and nothing makes the decoder fail
// in another way than by its error.
func FuzzCopy(f *testing.F) {
	good, err := (&copyOnDisk{rules: someRules(), saved: time.UnixMicro(1).UTC(), whole: true}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:copyHeader])
	f.Add([]byte(copyMagic))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := decodeCopy(text)
		if err != nil {
			return
		}
		again, err := c.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeCopy(again)
		if err != nil || !proto.Equal(back.rules, c.rules) || !back.saved.Equal(c.saved) || back.whole != c.whole {
			t.Errorf("%+v became %+v, %v", c, back, err)
		}
	})
}
