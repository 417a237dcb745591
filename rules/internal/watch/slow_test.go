package watch_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/rules/internal/watch"
)

// Each change of these tests has a quarter of a megabyte: a few dozens fill what
// the kernel and HTTP hold for a connection.
const (
	fatOverrides = 250
	fatReason    = 1000
	changesMost  = 10_000 // the test has failed by then
)

const slowlyCut = `shiplane_rules_watches_cut_total{reason="slow"}`

// A watcher that takes nothing is cut, and the others are told every change
// meanwhile.
func TestWatcherThatTakesNothingIsCut(t *testing.T) {
	for i, by := range protocols[:2] {
		t.Run(by.name, func(t *testing.T) {
			s := newStage(t, watch.Config{Stall: 500 * time.Millisecond})
			good, stuck := newPod(t, s, 1), newPod(t, s, i)
			stream := good.mustWatch(t)
			stuck.follow(t, stuck.mustWatch(t), 1)
			for revision := int64(2); s.count(slowlyCut) == ""; revision++ {
				if revision > changesMost {
					t.Fatal("the watcher was not cut")
				}
				s.put(t, revision, 0, fatOverrides, fatReason)
				good.follow(t, stream, revision)
			}
			good.check(t, s)
			if good.wholes != 1 {
				t.Errorf("another watcher was sent the whole %d times", good.wholes)
			}
		})
	}
}

// A watcher that takes what it is sent more slowly than changes come loses its
// place in the log. It is told so, comes again, and has everything.
func TestWatcherThatFallsBehindIsCutAndResyncs(t *testing.T) {
	s := newStage(t, watch.Config{Stall: time.Minute, Changes: 4})
	good, late := newPod(t, s, 1), newPod(t, s, 2)
	stream, lateStream := good.mustWatch(t), late.mustWatch(t)
	late.follow(t, lateStream, 1)
	const last = 60
	for revision := int64(2); revision <= last; revision++ {
		s.put(t, revision, 0, fatOverrides, fatReason)
		good.follow(t, stream, revision)
	}
	for lateStream.Receive() {
		late.take(t, lateStream.Msg())
		if late.revision == last {
			t.Fatal("the watcher was told everything: the changes were too few to fill its connection")
		}
	}
	if connect.CodeOf(lateStream.Err()) != connect.CodeUnavailable || s.count(slowlyCut) != "1" {
		t.Errorf("the watch ended with %v; cut: %q", lateStream.Err(), s.count(slowlyCut))
	}
	late.follow(t, late.mustWatch(t), last)
	late.check(t, s)
	if late.wholes != 2 || good.wholes != 1 {
		t.Errorf("the whole was sent %d times to the late one and %d times to the other, want 2 and 1", late.wholes, good.wholes)
	}
}
