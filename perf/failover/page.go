package failover

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/limit"
)

//go:embed page.html
var pageText string

// The plane of a chart, in pixels.
const (
	chartWidth  = 900.0
	chartHeight = 150.0
)

// chart is one drawing over the run's time.
type chart struct {
	Title, Top string
	Lines      []line
}

// line is one series of a chart.
type line struct {
	Name, Class, Points string
}

// band is when a breaker was not closed: the share of pods is its strength.
type band struct{ X, Width, Strength float64 }

// moment is a mark as the page draws it.
type moment struct {
	X    float64
	Text string
}

// page is what the template needs.
type page struct {
	About         string
	Width, Height float64
	End           string
	Charts        []chart
	Bands         []band
	Marks         []moment
	Text          string
}

// WritePage writes one page, which needs no other file: what became of the shard's
// requests, who decided, breakers and latency, over the run's time.
func (f *Fleet) WritePage(w io.Writer, o *Outage, about string) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	slots := f.Timeline.Slots(OfShard(o.Shard, true))
	end := time.Duration(len(slots)) * SlotLength
	p := page{About: about, Width: chartWidth, Height: chartHeight, End: fmt.Sprintf("%.3g s", end.Seconds())}
	x := func(at time.Duration) float64 { return chartWidth * float64(at) / float64(end) }
	for i := range slots {
		at := time.Duration(i) * SlotLength
		if n := f.Timeline.NotClosed(o.Name, at+SlotLength); n > 0 {
			p.Bands = append(p.Bands, band{x(at), x(SlotLength), 0.4 * float64(n) / float64(len(f.pods))})
		}
	}
	for _, m := range f.Timeline.Marks() {
		p.Marks = append(p.Marks, moment{x(m.At), fmt.Sprintf("%.2f s: %s", m.At.Seconds(), m.Text)})
	}
	p.Charts = charts(slots)
	var text strings.Builder
	if err := f.WriteText(&text, o); err != nil {
		return err
	}
	p.Text = text.String()
	return t.Execute(w, p)
}

func charts(slots []Slot) []chart {
	perSecond := func(of func(*Slot) int64) []float64 {
		return each(slots, func(s *Slot) float64 { return float64(of(s)) / SlotLength.Seconds() })
	}
	decided := func(by ...limit.DecidedBy) []float64 {
		return perSecond(func(s *Slot) (n int64) {
			for _, b := range by {
				n += s.By[b]
			}
			return n
		})
	}
	return []chart{
		draw("requests a second, by verdict", "%.0f", []string{"admitted", "refused", "unavailable"}, [][]float64{
			perSecond(func(s *Slot) int64 { return s.Admitted }),
			perSecond(func(s *Slot) int64 { return s.Refused }),
			perSecond(func(s *Slot) int64 { return s.Unavailable }),
		}),
		draw("requests a second, by who decided", "%.0f", []string{"in the pod", "store", "fallback", "fail closed"}, [][]float64{
			decided(limit.ByCap, limit.ByLease, limit.ByKnowledge, limit.ByHold), decided(limit.ByStore),
			decided(limit.ByFallback), decided(limit.ByFailClosed),
		}),
		draw("longest latency, ms", "%.3g", []string{"latency"}, [][]float64{
			each(slots, func(s *Slot) float64 { return float64(s.Longest) / float64(time.Millisecond) }),
		}),
	}
}

func each(slots []Slot, of func(*Slot) float64) []float64 {
	values := make([]float64, len(slots))
	for i := range slots {
		values[i] = of(&slots[i])
	}
	return values
}

// draw makes a chart of series of equal length, from zero to their highest value.
func draw(title, format string, names []string, series [][]float64) chart {
	top := 1.0
	for _, values := range series {
		for _, v := range values {
			top = math.Max(top, v)
		}
	}
	c := chart{Title: title, Top: fmt.Sprintf(format, top)}
	for i, values := range series {
		var points strings.Builder
		for j, v := range values {
			fmt.Fprintf(&points, "%.1f,%.1f ", chartWidth*(float64(j)+0.5)/float64(len(values)), chartHeight*(1-v/top))
		}
		c.Lines = append(c.Lines, line{names[i], fmt.Sprintf("line-%d", i), points.String()})
	}
	return c
}
