package client

import (
	"strconv"
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
