package client

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// A flood of keys costs bounded memory, and who comes all the while keeps its bucket.
func TestLocalBucketsAreBounded(t *testing.T) {
	f, err := newFallbacks(Local(1e-3, 5), nil)
	if err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for i := range 4 * localMax {
		f.decide(time.Second, []Entry{{Rule: "a", Key: strconv.Itoa(i)}})
		if i%1000 == 0 && f.decide(time.Second, []Entry{{Rule: "a", Key: "regular"}}).Allowed {
			admitted++
		}
		if n := len(f.fresh) + len(f.aged); n > localMax {
			t.Fatalf("%d buckets", n)
		}
	}
	if admitted != 5 {
		t.Errorf("a bucket of 5 admitted %d", admitted)
	}
}

// Long keys have buckets of their own, which keep no more of them than of short ones.
func TestLongKeysAreKeptShort(t *testing.T) {
	f, err := newFallbacks(Local(1e-3, 2), nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("k", 1<<20)
	for _, key := range []string{long, long + "1", long[:keptMax], long[:keptMax+1]} {
		for i := range 3 {
			if got := f.decide(time.Second, []Entry{{Rule: "a", Key: key}}).Allowed; got != (i < 2) {
				t.Errorf("request %d of a key of %d bytes: allowed %v", i, len(key), got)
			}
		}
	}
	if len(f.fresh) != 4 {
		t.Errorf("%d buckets, want 4", len(f.fresh))
	}
	for name := range f.fresh {
		if len(name.key) > keptMax+1 {
			t.Errorf("a key of %d bytes is kept", len(name.key))
		}
	}
}
