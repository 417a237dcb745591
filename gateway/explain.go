package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/serve"
)

// explainCommand is the command that tells what one request would meet.
type explainCommand struct {
	Method string `arg:"" help:"Method of the request, as POST."`
	Path   string `arg:"" help:"Its path, as /v1/bulk, or URL with the host that it is for."`

	flags   `embed:""`
	Key     string `env:"-" placeholder:"KEY" help:"API key that it presents; - reads it from standard input, where other users of the machine cannot see it."`
	Account string `env:"-" placeholder:"ID" help:"Account that it is of, instead of --key."`
	Plan    string `env:"-" placeholder:"ID" help:"Plan of --account (default --default-plan)."`
	IP      string `name:"ip" env:"-" placeholder:"ADDRESS" help:"Address that it comes from (default any)."`
	User    string `env:"-" placeholder:"NAME" help:"User that its body names (default any, on a route that counts by user)."`
	JSON    bool   `name:"json" env:"-" help:"Print JSON."`
}

// Help is shown by gateway explain --help.
func (*explainCommand) Help() string {
	return `It tells which rules a request meets, with which limits, overrides applied, and what
it would be charged, in the order in which they are asked. Nothing is charged, and
no counter is looked at. It takes the flags of the gateway; --upstream is not
needed. As in:

  gateway explain POST /v1/bulk --rules rules.yaml --keys keys.yaml --key - < key`
}

// explanation is what explain prints.
type explanation struct {
	Method  string       `json:"method"`
	Path    string       `json:"path"` // in the spelling that is matched
	Route   string       `json:"route"`
	Cost    int64        `json:"cost"`
	Free    bool         `json:"free"` // of a method that is not charged
	Plan    string       `json:"plan"`
	Account string       `json:"account,omitempty"`
	Address string       `json:"address"`
	User    string       `json:"user,omitempty"`
	Notes   []string     `json:"notes,omitempty"`
	Rules   []chargeView `json:"rules"`
}

type chargeView struct {
	Rule      string `json:"rule"`
	CountedBy string `json:"counted_by"`
	Subject   string `json:"subject"` // "any" where none was said
	Limit     string `json:"limit"`
	Of        string `json:"limit_of_rule,omitempty"` // where an override applies
	Banned    bool   `json:"banned,omitempty"`
	Charge    int64  `json:"charge"`
	Mode      string `json:"mode"`
	FailMode  string `json:"fail_mode"`
}

func (c *explainCommand) run(stdin io.Reader, stdout io.Writer) error {
	cfg, in, faults := c.inspect()
	request, err := c.request()
	if err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return serve.Usage(combine(faults))
	}
	caller, notes, err := c.caller(cfg, in, stdin)
	if err != nil {
		return serve.Usage(err)
	}
	e, err := c.explain(cfg, in.rules.Current(), request, caller)
	if err != nil {
		return err
	}
	e.Notes = append(notes, e.Notes...)
	if c.JSON {
		return writeJSON(stdout, e)
	}
	return e.write(stdout)
}

func (c *explainCommand) request() (*http.Request, error) {
	u, err := url.ParseRequestURI(c.Path)
	if err != nil || !strings.HasPrefix(u.Path, "/") {
		return nil, fmt.Errorf("PATH %q: want a path as /v1/labels, or a URL", c.Path)
	}
	r := &http.Request{Method: strings.ToUpper(c.Method), URL: u, Host: u.Host, Header: http.Header{}}
	r.URL.Path, r.URL.RawPath = ruleset.CleanPath(u)
	return r, nil
}

// caller tells who sends the request, with what a reader should know of it.
func (c *explainCommand) caller(cfg Config, in *files, stdin io.Reader) (*who, []string, error) {
	w := &who{account: c.Account, plan: c.Plan, user: c.User, ip: anyAddress}
	var notes []string
	if c.IP != "" {
		var err error
		if w.ip, err = netip.ParseAddr(c.IP); err != nil {
			return nil, nil, fmt.Errorf("--ip %q: want an address, as 192.0.2.1", c.IP)
		}
	}
	switch {
	case c.Key != "" && (c.Account != "" || c.Plan != ""):
		return nil, nil, errors.New("--key: belongs to an account and its plan: give it without --account and --plan")
	case c.Plan != "" && c.Account == "":
		return nil, nil, fmt.Errorf("--plan %q: needs --account", c.Plan)
	case c.Key != "":
		key, err := readKey(c.Key, stdin)
		if err != nil {
			return nil, nil, err
		}
		if known := in.keys.Current().Find(key); known != nil {
			w.account, w.plan = known.Account, known.Plan
		} else {
			w.refused = true
			notes = append(notes, "The key is unknown: the request is limited as an anonymous one, and then answered 401.")
		}
	case c.Account != "" && c.Plan == "":
		w.plan = cfg.DefaultPlan
	}
	if w.account == "" && cfg.RequireKey && !w.refused {
		w.refused = true
		notes = append(notes, "An account is required (--require-key): the request is limited as an anonymous one, and then answered 401.")
	}
	switch cfg.Mode {
	case edge.Shadow:
		notes = append(notes, "With --mode shadow no rule refuses it.")
	case edge.Off:
		notes = append(notes, "With --mode off no rule is asked, and nothing is charged.")
	}
	if w.account == "" {
		w.plan = ruleset.PlanAnonymous
	} else if !slices.Contains(in.rules.Current().Plans(), w.plan) {
		notes = append(notes, fmt.Sprintf("The rules know no plan %q, but %q: the account is limited as anonymous callers are.", w.plan, in.rules.Current().Plans()))
	}
	return w, notes, nil
}

func readKey(key string, stdin io.Reader) (string, error) {
	if key != "-" {
		return key, nil
	}
	text, err := io.ReadAll(io.LimitReader(stdin, keyRead))
	if err != nil {
		return "", fmt.Errorf("reading the key from standard input: %w", err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
}

func (c *explainCommand) explain(cfg Config, rules *ruleset.Ruleset, r *http.Request, w *who) (*explanation, error) {
	route := rules.Route(r)
	e := &explanation{
		Method: r.Method, Path: r.URL.EscapedPath(), Route: route.ID, Cost: route.Cost, Free: cfg.Charge.Free(r, route) && !w.refused,
		Plan: w.plan, Account: w.account, Address: "any", Rules: []chargeView{},
	}
	said := map[limit.Kind]bool{limit.IP: c.IP != "", limit.User: c.User != "", limit.Account: true}
	if said[limit.IP] {
		e.Address = rules.Naming().AddressID(w.ip)
	}
	e.addUser(rules.Naming(), route, w)
	caller, err := callerOf(rules, route, w)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(rules.Plans(), caller.Plan) {
		caller.Plan = ruleset.PlanAnonymous
	}
	var met limit.Request
	rules.Match(time.Now(), route, &caller, &met)
	if w.refused {
		edge.PriceRefused(route.Cost, met.Charges)
	} else {
		cfg.Charge.Price(r, route, met.Charges)
	}
	for _, charge := range met.Charges {
		v := chargeView{
			Rule: charge.Rule.ID, CountedBy: charge.Subject.Kind().String(), Subject: "any", Limit: charge.Limit.String(), Banned: charge.Banned,
			Charge: charge.Cost, Mode: charge.Rule.Mode.String(), FailMode: charge.Rule.FailMode.String(),
		}
		if said[charge.Subject.Kind()] {
			_, v.Subject, _ = strings.Cut(charge.Subject.String(), ":")
		}
		if charge.Limit != charge.Rule.Limit {
			v.Of = charge.Rule.Limit.String()
		}
		e.Rules = append(e.Rules, v)
	}
	return e, nil
}

// addUser tells which user the request is counted by: only the body of one that is
// charged and not refused for who sent it is read.
func (e *explanation) addUser(naming ruleset.Naming, route *ruleset.Route, w *who) {
	read := route.UserField != "" && !w.refused && !e.Free
	switch {
	case read && w.user == "":
		w.user, e.User = "-", "any"
	case read:
		e.User = naming.UserID(w.user)
	case w.user != "" && route.UserField == "":
		e.Notes = append(e.Notes, fmt.Sprintf("Route %s names no user_field: the user is not looked at.", nameOf(route.ID)))
	case w.user != "":
		e.Notes = append(e.Notes, "The body of such a request is not read: the user is not looked at.")
	}
	if !read {
		w.user = ""
	}
}

// write prints the explanation for people.
func (e *explanation) write(w io.Writer) error {
	by := "an anonymous caller"
	if e.Account != "" {
		by = fmt.Sprintf("account %s, plan %q", e.Account, e.Plan)
	}
	fmt.Fprintf(w, "%s %s by %s: route %s, cost %d\n", e.Method, e.Path, by, nameOf(e.Route), e.Cost)
	if e.Free {
		fmt.Fprintf(w, "Requests of method %s are not charged (see --charge).\n", e.Method)
	}
	for _, note := range e.Notes {
		fmt.Fprintln(w, note)
	}
	if len(e.Rules) == 0 {
		_, err := fmt.Fprintln(w, "It meets no rule: it is not limited.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nRULE\tCOUNTED BY\tLIMIT\tCHARGE\tMODE\tFAILS\n")
	for _, r := range e.Rules {
		limits := r.Limit
		switch {
		case r.Banned:
			limits = "none: an override refuses all"
		case r.Of != "":
			limits += " (override of " + r.Of + ")"
		}
		fmt.Fprintf(table, "%s\t%s %s\t%s\t%d\t%s\t%s\n", r.Rule, r.CountedBy, r.Subject, limits, r.Charge, r.Mode, r.FailMode)
	}
	return table.Flush()
}
