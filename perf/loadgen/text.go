package loadgen

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteJSON writes the report as indented JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report for people: what was sent and came back, how long
// it took, and what was admitted against the limit.
func (r *Report) WriteText(w io.Writer) error {
	ended := ""
	if r.Interrupted {
		ended = ", interrupted"
	}
	fmt.Fprintf(w, "%s  %gs asked, %.1fs to the last reply%s  %s arrivals, %d keys %s, seed %d\n\n",
		r.Target, r.DurationS, r.ElapsedS, ended, r.Arrivals, r.Keys, r.Distribution, r.Seed)

	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "plan\troute\tasked/s\tsent/s\tsent\tadmitted\trefused\tunavailable\terrors\t")
	for _, s := range r.Streams {
		fmt.Fprintf(t, "%s\t%s %s\t%.4g\t%.4g\t%d\t%d\t%d\t%d\t%d\t\n", s.Plan, s.Method, s.Path,
			s.AskedPerS, s.AchievedPerS, s.Sent, s.Admitted, s.Refused, s.Unavailable, s.Errors)
	}
	fmt.Fprintln(t, "\nplan\tlatency ms from the intended send\tp50\tp90\tp99\tp99.9\tmax\tsend delay p99\tmax\t")
	for _, s := range r.Streams {
		l, d := s.Latency, s.SendDelay
		fmt.Fprintf(t, "%s\t%s %s\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t%.3g\t\n", s.Plan, s.Method, s.Path,
			l.P50, l.P90, l.P99, l.P999, l.Max, d.P99, d.Max)
	}
	fmt.Fprintln(t, "\nplan\tlimit\tkeys\tt s\tadmitted tokens\tB + R·t\t% of it\t\t")
	for _, p := range r.Plans {
		p.writeText(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeWarnings(w)
}

func (p *PlanReport) writeText(w io.Writer) {
	if !p.Judged {
		fmt.Fprintf(w, "%s\tnot given\t%d\t%.2f\t%d\t\t\t\t\n", p.Plan, p.Keys, p.Seconds, p.Tokens)
		return
	}
	verdict := "within"
	if p.OverLimit {
		verdict = fmt.Sprintf("OVER THE LIMIT: %d keys", p.OverLimitKeys)
	}
	percent := 0.0
	if p.Bound > 0 {
		percent = 100 * float64(p.Tokens) / p.Bound
	}
	fmt.Fprintf(w, "%s\t%g/s burst %d\t%d\t%.2f\t%d\t%.1f\t%.1f\t%s\t\n", p.Plan, p.RatePerS, p.Burst, p.Keys,
		p.Seconds, p.Tokens, p.Bound, percent, verdict)
}

// writeWarnings says what makes the numbers above worth less than they look.
func (r *Report) writeWarnings(w io.Writer) error {
	for _, s := range r.Streams {
		if s.Behind {
			fmt.Fprintf(w, "\nThe generator fell behind on %s %s %s: 1%% of its sends were %.3g ms late or more, %d were given up. The latencies include the delay.\n",
				s.Plan, s.Method, s.Path, s.SendDelay.P99, s.Unsent)
		}
		if s.FirstError != "" {
			fmt.Fprintf(w, "\nFirst of %d errors on %s %s %s: %s\n", s.Errors, s.Plan, s.Method, s.Path, s.FirstError)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}
