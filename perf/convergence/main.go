package convergence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

// flags is the command line.
type flags struct {
	Instances int   `default:"3" placeholder:"N" help:"Instances of the rules service, 2 to 16 (default 3)."`
	Pods      int   `default:"150" placeholder:"N" help:"Pods that follow the rules, 1 to 1000 (default 150)."`
	Edits     int   `default:"500" placeholder:"N" help:"Edits in a row in each scenario, 20 to 10000 (default 500)."`
	Rules     int   `default:"1000" placeholder:"N" help:"Rules of the rulesets whose size is measured, 1 to 4000 (default 1000)."`
	Overrides []int `default:"10,40000,99000" placeholder:"N" help:"Overrides of these rulesets, each up to 99000 (default 10,40000,99000)."`
}

// Validate implements kong's check of values.
func (f *flags) Validate() error {
	within := func(flag string, value, least, most int) error {
		if value < least || value > most {
			return fmt.Errorf("--%s is %d: want %d to %d", flag, value, least, most)
		}
		return nil
	}
	faults := []error{within("instances", f.Instances, 2, 16), within("pods", f.Pods, 1, 1000), within("edits", f.Edits, 20, 10_000), within("rules", f.Rules, 1, 4000)}
	for _, n := range f.Overrides {
		faults = append(faults, within("overrides", n, 0, 99_000))
	}
	return errors.Join(faults...)
}

// Main is the command: it returns its exit code, 0 if everything reached every pod,
// 1 if not, 2 if the command line is wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, kong.Name("convergence"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.Description("Measures how changes of the rules reach a fleet of pods, through several instances of the rules service on one PostgreSQL that it starts."))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "convergence:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := errors.Join(scenarios(ctx, f, stdout), sizes(ctx, f, stdout)); err != nil {
		fmt.Fprintln(stderr, "convergence:", err)
		return 1
	}
	return 0
}

// scenarios plays all of them and prints a table.
func scenarios(ctx context.Context, f flags, out io.Writer) (err error) {
	fleet, err := Start(ctx, Config{Instances: f.Instances, Pods: f.Pods})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer func() { err = errors.Join(err, table.Flush()) }()
	fmt.Fprintf(table, "%d pods, %d instances\tedits\tapplied: p50\tp99\tmax\tabove 5 s\tout of order\tsent in a whole\twatches anew\t\n", f.Pods, f.Instances)
	var faults []error
	for _, s := range Scenarios(f.Edits) {
		r, err := fleet.Play(ctx, s)
		if err != nil {
			return errors.Join(append(faults, fmt.Errorf("%s: %w", s.Name, err))...)
		}
		fmt.Fprintf(table, "%s\t%d\t%v\t%v\t%v\t%d\t%d\t%d\t%d\t\n", s.Name, s.Edits, round(r.Quantile(0.5)), round(r.Quantile(0.99)), round(r.Quantile(1)),
			r.Late, r.OutOfOrder, r.Skipped, r.Watches)
		if r.OutOfOrder > 0 {
			faults = append(faults, fmt.Errorf("%s: %d revisions were out of order", s.Name, r.OutOfOrder))
		}
	}
	return errors.Join(faults...)
}

// sizes measures all rulesets and prints a table.
func sizes(ctx context.Context, f flags, out io.Writer) (err error) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer func() { err = errors.Join(err, table.Flush()) }()
	fmt.Fprintln(table, "\nrules\toverrides\tfirst ruleset\treceived\theld\ta change: received\tallocated\tapplied\t")
	for _, n := range f.Overrides {
		s, err := Measure(ctx, f.Rules, n)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%d\t%d\t%v\t%.2f MB\t%.1f MB\t%d B\t%.1f kB\t%v\t\n", s.Rules, s.Overrides, round(s.First),
			float64(s.FirstBytes)/1e6, float64(s.Heap)/1e6, s.Bytes, float64(s.Allocated)/1e3, round(s.Applied))
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
