package failover

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

// WriteText writes the timeline of a shard's streams, one line a slot: requests by
// verdict and by who decided, in how many pods the shard's breaker was not closed,
// the longest latency, and how late this process itself was. What happened stands
// between the lines.
func (f *Fleet) WriteText(w io.Writer, o *Outage) error {
	slots, t := f.Timeline.Slots(OfShard(o.Shard, true)), f.Timeline
	var b strings.Builder
	fmt.Fprintf(&b, "%8s %8s %8s %12s %8s %10s %10s  %s\n", "time", "admitted", "refused", "unavailable", "breakers", "longest", "own stall", "decided by")
	marks := t.Marks()
	for i := range slots {
		at, s := time.Duration(i)*SlotLength, &slots[i]
		for ; len(marks) > 0 && marks[0].At < at+SlotLength; marks = marks[1:] {
			fmt.Fprintf(&b, "%7.2fs -- %s\n", marks[0].At.Seconds(), marks[0].Text)
		}
		fmt.Fprintf(&b, "%7.2fs %8d %8d %12d %8s %10s %10s  %s\n", at.Seconds(), s.Admitted, s.Refused, s.Unavailable,
			fmt.Sprintf("%d/%d", t.NotClosed(o.Name, at+SlotLength), len(f.pods)),
			short(s.Longest), short(t.Stall(at, at+SlotLength)), by(s))
	}
	f.sum(&b, o)
	_, err := io.WriteString(w, b.String())
	return err
}

func short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// by is who decided, in the order of the path.
func by(s *Slot) string {
	var parts []string
	for d, n := range s.By {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", limit.DecidedBy(d), n))
		}
	}
	return strings.Join(parts, ", ")
}

// sum writes what the outage came to.
func (f *Fleet) sum(b *strings.Builder, o *Outage) {
	t := f.Timeline
	fmt.Fprintf(b, "\nbreakers: the first opened after %v; all were closed %v after the shard was back\n",
		(o.Opened - o.Began).Round(time.Millisecond), (o.Ended - o.Back).Round(time.Millisecond))
	for _, shard := range []struct {
		name string
		hit  bool
	}{{"requests of the shard", true}, {"requests of other shards", false}} {
		p99, longest := t.Latency(99, OfShard(o.Shard, shard.hit))
		s := t.Between(o.Began, o.Ended, OfShard(o.Shard, shard.hit))
		fmt.Fprintf(b, "%s since it began: p99 %v, longest %v; while it lasted: %s\n", shard.name, short(p99), short(longest), by(&s))
	}
	for _, s := range f.Streams {
		if s.Shard == o.Shard {
			got := t.Between(o.Began, o.Ended, func(other *Stream) bool { return other == s })
			fmt.Fprintf(b, "%-6s %-18s admitted %6d tokens in %.1f s, at most %d: %s\n",
				s.Name, s.Limit, got.Tokens, o.Seconds(), s.Bound(o.Seconds(), len(f.pods)), by(&got))
		}
	}
}
