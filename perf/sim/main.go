package sim

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// flags are the command's.
type flags struct {
	Run    string        `help:"Play only scenarios whose name contains this." placeholder:"TEXT"`
	Seed   uint64        `default:"1" help:"The same seed makes the same run."`
	RTT    time.Duration `name:"rtt" default:"400us" help:"Of a call to the store, where the scenario does not say."`
	Jitter float64       `default:"0" help:"Each way takes half of the round trip, 1 ± this (0 to 1), where the scenario does not say."`
	HTML   string        `name:"html" help:"Write a page with charts to this file." placeholder:"FILE"`
}

// Validate implements kong's check of values.
func (f *flags) Validate() error {
	if f.RTT <= 0 || f.RTT > time.Second {
		return fmt.Errorf("--rtt is %v: want more than 0 and at most 1s", f.RTT)
	}
	if !(f.Jitter >= 0 && f.Jitter <= 1) {
		return fmt.Errorf("--jitter is %v: want 0 to 1", f.Jitter)
	}
	return nil
}

// Main is the command: it returns its exit code, 0 if every scenario that was
// played came to what it must, 1 if one fell short, 2 if it could not be run.
func Main(args []string, stdout, stderr io.Writer) int {
	var f flags
	exit := -1
	parser, err := kong.New(&f, kong.Name("sim"), kong.Writers(stdout, stderr), kong.Exit(func(code int) { exit = code }),
		kong.Description("Plays the data path's scenarios in virtual time and prints what they came to."))
	if err == nil {
		_, err = parser.Parse(withDashes(args))
	}
	if exit >= 0 { // --help
		return exit
	}
	if err != nil {
		fmt.Fprintln(stderr, "sim:", err)
		return 2
	}
	rows, short := play(f, stdout)
	switch {
	case len(rows) == 0:
		fmt.Fprintf(stderr, "sim: no scenario's name contains %q\n", f.Run)
		return 2
	case f.HTML != "":
		if err := writeFile(f.HTML, rows, f); err != nil {
			fmt.Fprintln(stderr, "sim:", err)
			return 2
		}
	}
	if short > 0 {
		fmt.Fprintln(stdout, short, "of", len(rows), "scenarios fall short")
		return 1
	}
	fmt.Fprintln(stdout, "all", len(rows), "scenarios hold")
	return 0
}

// withDashes lets a flag be written with one dash, as Go's own are.
func withDashes(args []string) []string {
	var long []string
	for _, arg := range args {
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			arg = "-" + arg
		}
		long = append(long, arg)
	}
	return long
}

// play runs the scenarios, prints each row as it comes and counts those that
// fall short.
func play(f flags, stdout io.Writer) (rows []Row, short int) {
	fmt.Fprintln(stdout, Header)
	for _, s := range Scenarios() {
		if !strings.Contains(s.Name, f.Run) {
			continue
		}
		row, err := s.Run(Config{Seed: f.Seed, RTT: f.RTT, Jitter: f.Jitter})
		if err != nil {
			row.Faults = append(row.Faults, err.Error())
		}
		fmt.Fprintln(stdout, row.String())
		if len(row.Faults) > 0 {
			short++
		}
		rows = append(rows, row)
	}
	return rows, short
}

func writeFile(name string, rows []Row, f flags) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	err = WritePage(file, rows, fmt.Sprintf("seed %d, %v to the store and back, jitter %v", f.Seed, f.RTT, f.Jitter))
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
