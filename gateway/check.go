package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/serve"
)

// checkCommand is the command that reads everything and serves nothing.
type checkCommand struct {
	flags `embed:""`
	JSON  bool `name:"json" env:"-" help:"Print JSON."`
}

// Help is shown by gateway check --help.
func (*checkCommand) Help() string {
	return `It takes the flags of the gateway itself; --upstream is not needed. As in:

  gateway check --rules rules.yaml --keys keys.yaml

It prints which rules a request meets, by its route and plan. The exit code is 2
if anything is wrong, and all that is wrong is printed.`
}

// overview is what check prints.
type overview struct {
	Faults []string    `json:"faults,omitempty"`
	Domain string      `json:"domain,omitempty"`
	Keys   int         `json:"keys"`
	Plans  []string    `json:"plans,omitempty"` // plan anonymous first
	Rules  []ruleView  `json:"rules,omitempty"`
	Routes []routeView `json:"routes,omitempty"` // the one without a name last
}

type ruleView struct {
	ID        string `json:"id"`
	CountedBy string `json:"counted_by"` // account, ip or user
	Algorithm string `json:"algorithm"`
	Limit     string `json:"limit"`
	Mode      string `json:"mode"`
	FailMode  string `json:"fail_mode"`
}

type routeView struct {
	ID    string              `json:"id"`
	Match []string            `json:"match,omitempty"`
	Cost  int64               `json:"cost"`
	Rules map[string][]string `json:"rules"` // by plan, in the order in which they are asked
}

func (c *checkCommand) run(stdout io.Writer) error {
	cfg, in, faults := c.inspect()
	view := overview{}
	for _, fault := range faults {
		view.Faults = append(view.Faults, fault.Error())
	}
	if len(faults) == 0 {
		var err error
		if view, err = survey(in.rules.Current()); err != nil {
			return err
		}
		view.Keys = in.keys.Current().Len()
	}
	var err error
	if c.JSON {
		err = writeJSON(stdout, view)
	} else if len(faults) == 0 {
		err = view.write(stdout, sourceOf(cfg))
	}
	return errors.Join(err, serve.Usage(combine(faults)))
}

// inspect reads what the flags name without an upstream to send anything to.
func (f *flags) inspect() (Config, *files, []error) {
	if !f.upstreamGiven() && (f.Rules != "" || f.Keys != "") {
		f.Upstream = []string{"http://127.0.0.1"}
	}
	cfg, faults := f.read()
	cfg.Rules.Once = true
	in, more := openFiles(cfg, discard)
	return cfg, in, append(faults, more...)
}

func sourceOf(cfg Config) string {
	if cfg.Demo {
		return "the demo"
	}
	return cfg.Rules.String()
}

// survey tells which rules each request meets: it asks the ruleset as a request
// does.
func survey(rules *ruleset.Ruleset) (overview, error) {
	view := overview{Domain: rules.Domain(), Plans: append([]string{ruleset.PlanAnonymous}, rules.Plans()...)}
	for _, r := range rules.Rules() {
		view.Rules = append(view.Rules, ruleView{
			ID: r.ID, CountedBy: r.Kind.String(), Algorithm: r.Algorithm.String(), Limit: r.Limit.String(), Mode: r.Mode.String(), FailMode: r.FailMode.String(),
		})
	}
	for _, route := range append(append([]*ruleset.Route(nil), rules.Routes()...), &ruleset.Route{Cost: 1}) {
		row := routeView{ID: route.ID, Match: route.Match, Cost: route.Cost, Rules: map[string][]string{}}
		for _, plan := range view.Plans {
			charges, err := someone(rules, route, plan)
			if err != nil {
				return view, err
			}
			for _, charge := range charges {
				row.Rules[plan] = append(row.Rules[plan], charge.Rule.ID)
			}
		}
		view.Routes = append(view.Routes, row)
	}
	return view, nil
}

// someone returns the charges of a request of a plan by nobody in particular.
func someone(rules *ruleset.Ruleset, route *ruleset.Route, plan string) ([]limit.Charge, error) {
	w := &who{plan: plan, user: "-", ip: anyAddress}
	if plan != ruleset.PlanAnonymous {
		w.account = "-"
	}
	caller, err := callerOf(rules, route, w)
	if err != nil {
		return nil, err
	}
	var request limit.Request
	rules.Match(time.Now(), route, &caller, &request)
	return request.Charges, nil
}

// anyAddress stands for the address of a request of which none is said: it is
// for documentation (RFC 5737).
var anyAddress = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// who is a caller in words.
type who struct {
	account, plan, user string // "" for none
	ip                  netip.Addr
	refused             bool // the credential does not hold
}

func callerOf(rules *ruleset.Ruleset, route *ruleset.Route, w *who) (caller ruleset.Caller, err error) {
	caller.Plan = w.plan
	domain, naming := rules.Domain(), rules.Naming()
	if caller.IP, err = limit.NewSubject(domain, limit.IP, naming.AddressID(w.ip)); err != nil {
		return caller, err
	}
	if id := naming.UserID(w.user); id != "" && route.UserField != "" {
		if caller.User, err = limit.NewSubject(domain, limit.User, id); err != nil {
			return caller, err
		}
	}
	if w.account != "" {
		caller.Account, err = limit.NewSubject(domain, limit.Account, w.account)
	}
	return caller, err
}

// write prints the overview as tables.
func (v *overview) write(w io.Writer, source string) error {
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s: no faults. Domain %s, %d plans, %d routes, %d rules, %d keys.\n\n", source, v.Domain, len(v.Plans), len(v.Routes)-1, len(v.Rules), v.Keys)
	fmt.Fprint(table, "RULE\tCOUNTED BY\tALGORITHM\tLIMIT\tMODE\tFAILS\n")
	for _, r := range v.Rules {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ID, r.CountedBy, r.Algorithm, r.Limit, r.Mode, r.FailMode)
	}
	if err := table.Flush(); err != nil { // the next one has columns of its own
		return err
	}
	fmt.Fprintf(table, "\nROUTE\tCOST\t%s\n", strings.Join(v.Plans, "\t"))
	for _, r := range v.Routes {
		lines := 1
		for _, met := range r.Rules {
			lines = max(lines, len(met))
		}
		for line := range lines {
			cells := []string{"", ""}
			if line == 0 {
				cells = []string{nameOf(r.ID), fmt.Sprint(r.Cost)}
			}
			for _, plan := range v.Plans {
				cell := ""
				if line < len(r.Rules[plan]) {
					cell = r.Rules[plan][line]
				}
				cells = append(cells, cell)
			}
			fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
	}
	return writeTable(w, table, &text)
}

// writeTable writes what a table has put into text, without spaces at the ends of
// lines.
func writeTable(w io.Writer, table *tabwriter.Writer, text *bytes.Buffer) error {
	err := table.Flush() // of memory, which takes everything
	for line := range strings.Lines(text.String()) {
		if err == nil {
			_, err = fmt.Fprintln(w, strings.TrimRight(line, " \n"))
		}
	}
	return err
}

// nameOf names a route class, also the one of requests that no pattern matches.
func nameOf(route string) string {
	if route == "" {
		return "(other)"
	}
	return route
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
