package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

// flags are the command's.
type flags struct {
	For  time.Duration `default:"10s" help:"Of each scenario, 1s to 10m."`
	Seed uint64        `default:"1" help:"The same seed draws the same arrivals."`
}

// Validate implements kong's check of values.
func (f *flags) Validate() error {
	if f.For < time.Second || f.For > 10*time.Minute {
		return fmt.Errorf("--for is %v: want 1s to 10m", f.For)
	}
	return nil
}

// apart is by how much the share that the pods admit may differ from what the
// simulator says, of what it says.
const apart = 0.02

// Main is the command: it returns its exit code, 0 if all scenarios agree with the
// simulator, 1 if one does not or could not be played, 2 if the command line is
// wrong.
func Main(args []string, stdout, stderr io.Writer) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, kong.Name("real"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.Description("Plays key scenarios with eight processes over a real Redis Cluster and compares them with the simulator."))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "real:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, f, stdout); err != nil {
		fmt.Fprintln(stderr, "real:", err)
		return 1
	}
	return 0
}

// compare plays all scenarios and prints a table.
func compare(ctx context.Context, f flags, out io.Writer) (err error) {
	fleet, err := Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer func() { err = errors.Join(err, table.Flush()) }()
	fmt.Fprintln(table, "scenario\toffered\tadmitted: simulated\treal\tof it\tcalls/s: simulated\treal\tin the pod\tunknown\t")
	var far []error
	for i, s := range Scenarios() {
		row, err := s.simulate(f.Seed, f.For)
		if err != nil {
			return fmt.Errorf("%s, simulated: %w", s.Name, err)
		}
		seen, _, err := fleet.Play(i, f.Seed, f.For)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		ratio := float64(seen.Admitted) / float64(row.Admitted)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%.2f %%\t%.0f\t%.0f\t%.1f %%\t%d\t\n", s.Name, seen.Offered, row.Admitted, seen.Admitted, 100*ratio,
			row.Calls, float64(seen.Calls)/f.For.Seconds(), 100*float64(seen.Local)/float64(seen.Offered), seen.Unknown)
		if math.Abs(ratio-1) > apart {
			far = append(far, fmt.Errorf("%s: %d admitted, more than %.0f %% from the simulator's %d", s.Name, seen.Admitted, 100*apart, row.Admitted))
		}
	}
	return errors.Join(far...)
}
