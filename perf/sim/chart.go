package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// The plane of a chart, in pixels: lines are drawn within it, texts around it.
const (
	chartWidth  = 300.0
	chartHeight = 110.0
)

// chart is one drawing: lines over the run's time, or bars.
type chart struct {
	Title      string
	Lines      []line
	Bars       []bar
	Top, Low   string  // what the upper and lower edge stand for
	Zero       float64 // y of zero
	Begin, End string  // what the left and the right edge stand for
}

// line is one series of a chart.
type line struct{ Name, Class, Points string }

// bar is one of a chart's bars.
type bar struct {
	X, Y, Width, Height float64
	Title               string
}

// charts draw what the row showed over its time.
func (r *Row) charts() []chart {
	perSecond := func(of func(*Slot) float64) []float64 {
		return r.each(func(s *Slot) float64 { return of(s) * float64(len(r.Series)) / r.Seconds })
	}
	charts := []chart{
		r.timeline("tokens a second", []string{"offered", "entitled", "admitted"}, [][]float64{
			perSecond(func(s *Slot) float64 { return float64(s.Offered) }),
			perSecond(func(s *Slot) float64 { return float64(s.Entitled) }),
			perSecond(func(s *Slot) float64 { return float64(s.Admitted) }),
		}),
		r.timeline("store calls a second", []string{"calls"}, [][]float64{perSecond(func(s *Slot) float64 { return float64(s.Calls) })}),
	}
	if r.Single {
		charts = append(charts, r.timeline("tokens on lease or on the wire", []string{"lease"}, [][]float64{r.each(func(s *Slot) float64 { return float64(s.Out) })}))
	}
	if r.Single && !r.Edited {
		charts = append(charts, r.timeline("admitted above burst + rate · t (below 0: room)", []string{"over"}, [][]float64{r.each(func(s *Slot) float64 { return s.Over })}))
	}
	if len(r.ByPod) > 0 {
		charts = append(charts, bars("admitted by each pod, second half", r.ByPod, func(i int) string { return fmt.Sprintf("pod %d", r.Fair[i]) }, "first pod", "last pod"))
	}
	waits := bars(fmt.Sprintf("waits of the %.1f %% not decided at once", 100*(1-r.Local)), r.Waits, func(i int) string {
		return fmt.Sprintf("%.3f to %.3f round trips", float64(i)/waitParts, float64(i+1)/waitParts)
	}, "0", "4 round trips or more")
	return append(charts, waits)
}

func (r *Row) each(of func(*Slot) float64) []float64 {
	values := make([]float64, len(r.Series))
	for i := range r.Series {
		values[i] = of(&r.Series[i])
	}
	return values
}

// edges are the values between which a chart shows its last series, zero
// included: what is above twice what 95 % of it stays below is cut.
func edges(series [][]float64) (low, top float64) {
	values := slices.Sorted(slices.Values(series[len(series)-1]))
	if len(values) == 0 {
		return 0, 0
	}
	highest := values[len(values)-1]
	return min(0, values[0]), max(0, min(highest, max(1, 2*values[len(values)*95/100])))
}

// timeline draws series of equal length over the run.
func (r *Row) timeline(title string, names []string, series [][]float64) chart {
	low, top := edges(series)
	span := max(top-low, 1)
	y := func(v float64) float64 { return chartHeight * (1 - (v-low)/span) }
	c := chart{Title: title, Top: short(top), Low: short(low), Zero: y(0), Begin: "0 s", End: fmt.Sprintf("%.3g s", r.Seconds)}
	for i, values := range series {
		var points strings.Builder
		for j, v := range values {
			fmt.Fprintf(&points, "%.1f,%.1f ", chartWidth*(float64(j)+0.5)/float64(len(values)), y(min(v, top)))
		}
		c.Lines = append(c.Lines, line{names[i], names[i], points.String()})
	}
	return c
}

// bars draws one bar a value.
func bars(title string, values []int64, name func(int) string, begin, end string) chart {
	top := int64(1)
	for _, v := range values {
		top = max(top, v)
	}
	c := chart{Title: title, Top: short(float64(top)), Low: "0", Zero: chartHeight, Begin: begin, End: end}
	width := chartWidth / float64(len(values))
	for i, v := range values {
		height := chartHeight * float64(v) / float64(top)
		c.Bars = append(c.Bars, bar{
			X: width * (float64(i) + 0.1), Y: chartHeight - height, Width: 0.8 * width, Height: height,
			Title: fmt.Sprintf("%s: %d", name(i), v),
		})
	}
	return c
}

// short is a number of at most four digits or so.
func short(v float64) string {
	if math.Abs(v) >= 10_000 {
		return fmt.Sprintf("%.0f k", v/1000)
	}
	return fmt.Sprintf("%.4g", math.Round(v))
}
