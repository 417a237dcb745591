package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
)

// keyCommand is the command that tells what the store holds of one caller.
type keyCommand struct {
	flags   `embed:""`
	Account string `env:"-" placeholder:"ID" help:"Account whose counters to read."`
	IP      string `name:"ip" env:"-" placeholder:"ADDRESS" help:"Or address."`
	User    string `env:"-" placeholder:"NAME" help:"Or user, as the body of a login names it."`
	Plan    string `env:"-" placeholder:"ID" help:"Show only rules that requests of this plan meet (default: of any plan)."`
	JSON    bool   `name:"json" env:"-" help:"Print JSON."`
}

// Help is shown by gateway key --help.
func (*keyCommand) Help() string {
	return `It reads the counters of one account, address or user in the store, and changes none.
It takes the flags of the gateway; --upstream is not needed. As in:

  gateway key --store redis://127.0.0.1:6379 --rules rules.yaml --account acct_7Q2

What gateways hold on lease is taken from the counters already.`
}

// keyView is what key prints.
type keyView struct {
	Subject  string        `json:"subject"`
	Key      string        `json:"key"`
	Bytes    int           `json:"bytes"` // of the record of buckets and windows
	At       time.Time     `json:"at"`    // on the store's clock
	Counters []counterView `json:"counters"`
	Unknown  int           `json:"unknown_counters,omitempty"` // of rules that the file does not have
}

type counterView struct {
	Rule      string     `json:"rule"`
	Algorithm string     `json:"algorithm"`
	Limit     string     `json:"limit"`
	Of        string     `json:"limit_of_rule,omitempty"` // where an override applies
	Banned    bool       `json:"banned,omitempty"`
	Used      bool       `json:"used"` // something is counted
	Remaining int64      `json:"remaining"`
	Tokens    *float64   `json:"tokens,omitempty"`   // of a bucket, now
	Written   *time.Time `json:"written,omitempty"`  // when a bucket was, last
	Count     int64      `json:"count,omitempty"`    // of a window or log, now
	Attempts  []attempt  `json:"attempts,omitempty"` // of a log, the oldest first
	ResetMS   int64      `json:"reset_ms"`           // until nothing is used any more
	TTLMS     int64      `json:"ttl_ms"`             // of the key that it lies in
}

type attempt struct {
	At    time.Time `json:"at"`
	Count int64     `json:"count"`
}

func (c *keyCommand) run(stdout io.Writer) error {
	cfg, in, faults := c.inspect()
	if cfg.Store.Redis.URL == "" {
		faults = append(faults, errors.New(`--store: counters in the memory of a gateway, or behind a checker, cannot be read: want redis://HOST:PORT`))
	}
	if len(faults) > 0 {
		return serve.Usage(combine(faults))
	}
	if err := cfg.Store.Secrets(); err != nil {
		return serve.Usage(err)
	}
	rules := in.rules.Current()
	subject, err := c.subject(rules)
	if err != nil {
		return serve.Usage(err)
	}
	charges, err := c.charges(rules, subject)
	if err != nil {
		return serve.Usage(err)
	}
	reader, err := rediscluster.NewInspector(cfg.Store.Redis)
	if err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	defer reader.Close()
	entries := make([]store.Entry, len(charges))
	for i := range charges {
		entries[i] = store.Entry{Rule: charges[i].Rule, Limit: charges[i].Limit}
	}
	reading, err := reader.Read(context.Background(), subject, entries)
	if err != nil {
		return err
	}
	view := viewOf(subject, charges, reading)
	if c.JSON {
		return writeJSON(stdout, view)
	}
	return view.write(stdout)
}

// subject is the one identity that the flags name, in the spelling that counts.
func (c *keyCommand) subject(rules *ruleset.Ruleset) (limit.Subject, error) {
	given := 0
	for _, flag := range []string{c.Account, c.IP, c.User} {
		if flag != "" {
			given++
		}
	}
	if given != 1 {
		return limit.Subject{}, fmt.Errorf("--account, --ip, --user: %d are given, want one of them", given)
	}
	switch naming := rules.Naming(); {
	case c.IP != "":
		address, err := netip.ParseAddr(c.IP)
		if err != nil {
			return limit.Subject{}, fmt.Errorf("--ip %q: want an address, as 192.0.2.1", c.IP)
		}
		return limit.NewSubject(rules.Domain(), limit.IP, naming.AddressID(address))
	case c.User != "":
		return limit.NewSubject(rules.Domain(), limit.User, naming.UserID(c.User))
	}
	return limit.NewSubject(rules.Domain(), limit.Account, c.Account)
}

// charges are those of the subject's rules that a request can meet, each once,
// with the override that is in force.
func (c *keyCommand) charges(rules *ruleset.Ruleset, subject limit.Subject) ([]limit.Charge, error) {
	plans := append([]string{ruleset.PlanAnonymous}, rules.Plans()...)
	if c.Plan != "" {
		if !slices.Contains(plans, c.Plan) {
			return nil, fmt.Errorf("--plan %q: want one of %q", c.Plan, plans)
		}
		plans = []string{c.Plan}
	}
	var all []limit.Charge
	var request limit.Request
	for _, plan := range plans {
		caller := ruleset.Caller{Plan: plan}
		switch subject.Kind() {
		case limit.IP:
			caller.IP = subject
		case limit.User:
			caller.User = subject
		default:
			caller.Account = subject
		}
		for _, route := range append([]*ruleset.Route{nil}, rules.Routes()...) {
			rules.Match(time.Now(), route, &caller, &request)
			for _, charge := range request.Charges {
				if !slices.ContainsFunc(all, func(known limit.Charge) bool { return known.Rule == charge.Rule }) {
					all = append(all, charge)
				}
			}
		}
	}
	return all, nil
}

func viewOf(subject limit.Subject, charges []limit.Charge, r rediscluster.Reading) keyView {
	view := keyView{
		Subject: subject.String(), Key: r.Key, Bytes: r.Bytes, At: store.Epoch.Add(r.At),
		Counters: make([]counterView, len(charges)), Unknown: len(r.Unknown),
	}
	for i, charge := range charges {
		held := r.Counters[i]
		v := counterView{
			Rule: charge.Rule.ID, Algorithm: charge.Rule.Algorithm.String(), Limit: charge.Limit.String(), Banned: charge.Banned,
			Used: held.Found, Remaining: held.Remaining, ResetMS: held.Reset.Milliseconds(), TTLMS: held.TTL.Milliseconds(),
		}
		if charge.Limit != charge.Rule.Limit {
			v.Of = charge.Rule.Limit.String()
		}
		switch charge.Rule.Algorithm {
		case limit.TokenBucket:
			v.Tokens = &held.Level
			if held.Found {
				written := store.Epoch.Add(held.Counter.Tokens.At)
				v.Written = &written
			}
		case limit.SlidingLog:
			for _, a := range held.Counter.Log.Live(r.At, charge.Limit.Window) {
				v.Attempts = append(v.Attempts, attempt{store.Epoch.Add(a.At), a.Count})
				v.Count += a.Count
			}
		default:
			v.Count = held.Counter.Window.CountAt(r.At, charge.Limit.Window)
		}
		view.Counters[i] = v
	}
	return view
}

// write prints the view for people.
func (v *keyView) write(w io.Writer) error {
	fmt.Fprintf(w, "%s at %s on the store's clock\nkey %s, %d bytes\n", v.Subject, v.At.Format(time.RFC3339Nano), v.Key, v.Bytes)
	if v.Unknown > 0 {
		fmt.Fprintf(w, "The record has %d counters more, of rules that are not in the file or not of this plan.\n", v.Unknown)
	}
	if len(v.Counters) == 0 {
		_, err := fmt.Fprintln(w, "No rule counts it.")
		return err
	}
	var text bytes.Buffer
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "\nRULE\tLIMIT\tLEFT\tWHOLE IN\tHOLDS\tKEPT FOR\n")
	for _, c := range v.Counters {
		limits, holds, kept := c.Limit, c.holds(v.At), "-"
		switch {
		case c.Banned:
			limits = "none: an override refuses all"
		case c.Of != "":
			limits += " (override of " + c.Of + ")"
		}
		if c.Used {
			kept = shortly(c.TTLMS)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\n", c.Rule, limits, c.Remaining, shortly(c.ResetMS), holds, kept)
	}
	return writeTable(w, table, &text)
}

// holds says in words what lies in a counter.
func (c *counterView) holds(now time.Time) string {
	switch {
	case !c.Used:
		return "nothing: never used, or whole again and forgotten"
	case c.Tokens != nil:
		return fmt.Sprintf("%.3f tokens, written %s ago", *c.Tokens, shortly(now.Sub(*c.Written).Milliseconds()))
	case len(c.Attempts) > 0:
		return fmt.Sprintf("%d counted in %d attempts, the last at %s", c.Count, len(c.Attempts), c.Attempts[len(c.Attempts)-1].At.Format(time.RFC3339))
	}
	return fmt.Sprintf("%d counted", c.Count)
}

// shortly shows milliseconds as a duration, in seconds where it is long.
func shortly(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d > time.Minute {
		d = d.Round(time.Second)
	}
	return d.String()
}
