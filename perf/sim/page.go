package sim

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// WritePage writes one page, which needs no other file, with a table of the rows
// and charts of each. about says how they were made.
func WritePage(w io.Writer, rows []Row, about string) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	data := struct {
		About string
		Short int
		Rows  []rowView
	}{About: about}
	for i := range rows {
		r := &rows[i]
		if len(r.Faults) > 0 {
			data.Short++
		}
		data.Rows = append(data.Rows, rowView{Row: r, ID: fmt.Sprint("row-", i), Charts: r.charts()})
	}
	return page.Execute(w, data)
}

// rowView is a row as the page shows it.
type rowView struct {
	*Row
	ID     string
	Charts []chart
}

// Percent is a part as text.
func (rowView) Percent(part float64) string { return fmt.Sprintf("%.2f %%", 100*part) }

// OfOffered is the part of what was offered that was admitted.
func (v rowView) OfOffered() string { return v.Percent(float64(v.Admitted) / float64(v.Offered)) }

// OfEntitled is the part of what one exact bucket admits.
func (v rowView) OfEntitled() string { return v.Percent(float64(v.Admitted) / float64(v.Entitled)) }

// Rate is tokens offered a second.
func (v rowView) Rate() string { return fmt.Sprintf("%.0f", float64(v.Offered)/v.Seconds) }

// CallRate is store calls a second.
func (v rowView) CallRate() string { return fmt.Sprintf("%.0f", v.Calls) }

// Lease is the mean of what is on lease.
func (v rowView) Lease() string { return v.ofKey("%.1f %%", 100*v.Stranded) }

// Over is the largest overshoot in tokens, over windows of any length.
func (v rowView) Over() string {
	if v.Edited || v.Overshoot[3] < 0.5 {
		return ""
	}
	return v.ofKey("%.0f", v.Overshoot[3])
}

// Wait is the longest that a request waited.
func (v rowView) Wait() string { return v.Longest.Round(10 * time.Microsecond).String() }

// FairnessText is the largest by the smallest pod.
func (v rowView) FairnessText() string {
	if v.Fairness == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v.Fairness)
}

// ByClass is what each class of requests came to.
func (v rowView) ByClass() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(v.Classes)) {
		c := v.Classes[name]
		text := fmt.Sprintf("%s: %s of offered, %s of entitled", name, v.Percent(float64(c.Admitted)/float64(c.Offered)), v.Percent(float64(c.Admitted)/float64(c.Entitled)))
		if c.Calls > 0 {
			text += fmt.Sprintf(", %.3f calls a request", float64(c.Calls)/float64(c.Requests))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// Stages are who decided, the most frequent first.
func (v rowView) Stages() string {
	type stage struct {
		name string
		n    int64
	}
	var stages []stage
	var sum int64
	for by, n := range v.By {
		stages = append(stages, stage{by.String(), n})
		sum += n
	}
	slices.SortFunc(stages, func(a, b stage) int {
		if a.n != b.n {
			return int(b.n - a.n)
		}
		return strings.Compare(a.name, b.name)
	})
	var texts []string
	for _, s := range stages {
		texts = append(texts, fmt.Sprintf("%s %.1f %%", strings.ReplaceAll(s.name, "_", " "), 100*float64(s.n)/float64(sum)))
	}
	return strings.Join(texts, ", ")
}
