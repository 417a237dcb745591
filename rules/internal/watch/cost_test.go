package watch_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/watch"
)

// sink is a connection that takes everything and keeps nothing.
type sink struct {
	header  http.Header
	flushed chan struct{}
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) Flush()                      { s.flushed <- struct{}{} }

// crowd is watchers without a network between.
type crowd struct {
	*stage
	n       int
	flushed chan struct{} // once for each watcher and message
}

// newCrowd begins n watches, which have been sent the whole.
func newCrowd(tb testing.TB, n int) *crowd {
	tb.Helper()
	s := newHub(tb, watch.Config{Heartbeat: time.Hour})
	c := &crowd{stage: s, n: n, flushed: make(chan struct{})}
	body, err := proto.Marshal(&rulesv1.WatchRequest{Domain: domain, Pod: &rulesv1.Pod{Id: "a"}})
	if err != nil {
		tb.Fatal(err)
	}
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
	path, handler := s.Handler()
	ctx, cancel := context.WithCancel(tb.Context())
	var watches sync.WaitGroup
	for range n {
		watches.Go(func() {
			q := httptest.NewRequestWithContext(ctx, http.MethodPost, path+"Watch", bytes.NewReader(framed))
			q.Header.Set("Content-Type", "application/connect+proto")
			handler.ServeHTTP(&sink{header: http.Header{}, flushed: c.flushed}, q)
		})
	}
	c.wait() // the whole
	c.wait() // a heartbeat
	tb.Cleanup(func() {
		cancel()
		go func() { // the end of each watch is a message, too
			for range c.flushed {
			}
		}()
		watches.Wait()
		close(c.flushed)
	})
	return c
}

// wait returns when each watcher was sent one message more.
func (c *crowd) wait() {
	for range c.n {
		<-c.flushed
	}
}

// A change is encoded once for all: what another watcher allocates for it does not
// grow with it.
func TestChangeIsEncodedOnce(t *testing.T) {
	if raced {
		t.Skip("the race detector drops what is pooled")
	}
	const more, changes, overrides, reason = 50, 20, 100, 1000 // a change of 100 KB
	defer debug.SetGCPercent(debug.SetGCPercent(-1))           // a collection empties connect's pool of buffers
	allocated := func(watchers int) int64 {
		c := newCrowd(t, watchers)
		var before, after runtime.MemStats
		for i := range 2 * changes { // the first ones make the buffers
			if i == changes {
				runtime.ReadMemStats(&before)
			}
			c.put(t, int64(i)+2, 0, overrides, reason)
			c.wait()
		}
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	each := (allocated(1+more) - allocated(1)) / (more * changes)
	t.Logf("%d B a watcher and change", each)
	if each > overrides*reason/50 {
		t.Errorf("a watcher allocates %d B for a change of %d B", each, overrides*reason)
	}
}

// BenchmarkFanOut is one change of one override to 1,000 watchers, without the
// network.
func BenchmarkFanOut(b *testing.B) {
	const watchers = 1000
	c := newCrowd(b, watchers)
	change := []*rulesv1.Change{{Item: &rulesv1.Change_Override{Override: &rulesv1.Override{
		Id: "o-1", Rule: "global", Key: "acct_1", Rate: proto.Float64(10), Burst: proto.Int64(20), Reason: "launch week",
	}}}}
	b.ReportAllocs()
	revision := int64(1)
	for b.Loop() {
		c.Changed(domain, revision, revision+1, change, c.rules)
		revision++
		c.wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/watchers, "ns/watcher")
}
