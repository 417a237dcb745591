package peers

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// report prints medians over the turns, and how the first contestant does against
// each other: the median of the turns' ratios.
func report(out io.Writer, s *scenario, turns [][]turn) error {
	fmt.Fprintf(out, "\n%s, %d turns each\n", s.name, len(turns[0]))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tdecisions/s\tits CPU a decision\tRedis' CPU\tthe first decides\tfor CPU of\tand Redis' of\t")
	first := turns[0]
	for i, one := range s.all {
		its := turns[i]
		middle := func(value func(k int) float64) float64 { return median(len(its), value) }
		fmt.Fprintf(table, "%s\t%.0f\t%.1f µs\t%.1f µs\t%.2fx\t%.2fx\t%s\t\n", one.name,
			middle(func(k int) float64 { return its[k].perSecond }),
			middle(func(k int) float64 { return microseconds(its[k].service) }),
			middle(func(k int) float64 { return microseconds(its[k].redis) }),
			middle(func(k int) float64 { return first[k].perSecond / its[k].perSecond }),
			middle(func(k int) float64 { return float64(first[k].service) / float64(its[k].service) }),
			share(middle(func(k int) float64 { return microseconds(first[k].redis) }), middle(func(k int) float64 { return microseconds(its[k].redis) })))
	}
	return table.Flush()
}

// share is a ratio to what may be nothing.
func share(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", a/b)
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// median of n values.
func median(n int, value func(k int) float64) float64 {
	values := make([]float64, n)
	for k := range values {
		values[k] = value(k)
	}
	slices.Sort(values)
	return values[n/2]
}
