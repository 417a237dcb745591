package sim

import (
	"fmt"
	"strings"
	"time"
)

// Header is the first line of a table of rows.
const Header = "scenario                                      | offered/s | of offered, entitled, bound, rate | calls/s  backs | lease | over 100ms     1s    10s    any | fair | longest | back  lost"

// ofKey is a figure of the one account of the row, "" if there are many.
func (r *Row) ofKey(format string, x float64) string {
	if !r.Single {
		return ""
	}
	return fmt.Sprintf(format, x)
}

// String is the row as a line of the table, and a line for each fault.
func (r *Row) String() string {
	var b strings.Builder
	admitted := float64(r.Admitted)
	fmt.Fprintf(&b, "%-45s | %9.0f | %7.2f%% %7.2f%% %7s %7s | %7.0f %6.1f | %5s |", r.Name, float64(r.Offered)/r.Seconds,
		100*admitted/float64(r.Offered), 100*admitted/float64(r.Entitled), r.ofKey("%.1f%%", 100*admitted/r.Bound), r.ofKey("%.1f%%", 100*r.SteadyRate),
		r.Calls, r.Gives, r.ofKey("%.1f%%", 100*r.Stranded))
	for i, over := range r.Overshoot {
		width := 6
		if i == 0 {
			width = 11
		}
		text := "-"
		if over > 0 && !r.Edited {
			text = r.ofKey("%.1f", over)
		}
		fmt.Fprintf(&b, " %*s", width, text)
	}
	fmt.Fprintf(&b, " | %4.1f | %7s | %4d %5d", r.Fairness, r.Longest.Round(10*time.Microsecond), r.Returned, r.Lost)
	for _, fault := range r.Faults {
		b.WriteString("\n    FALLS SHORT: " + fault)
	}
	return b.String()
}
