package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// ErrHelp ends a command line that asked for help only, which was shown.
var ErrHelp = errors.New("help was shown")

// Parse fills cmd (a pointer to a structure with kong's tags) from args and the
// environment, and returns the selected command. usual is the command that a bare
// --help is about; "" for the program itself.
func Parse(program, usual string, cmd any, args []string, stdout, stderr io.Writer) (selected string, err error) {
	helped := false
	parser, err := kong.New(cmd,
		kong.Name(program),
		kong.DefaultEnvars("SHIPLANE"),
		kong.Writers(stdout, stderr),
		kong.WithHyphenPrefixedParameters(true), // a value of -1s is a fault of its own
		kong.Exit(func(int) { helped = true }),  // kong exits after --help
	)
	if err != nil {
		return "", fmt.Errorf("the command line's definition: %w", err)
	}
	// kong shows the flags of the default command only where it is named.
	if usual != "" && len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		args = []string{usual, args[0]}
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return "", ErrHelp
	case err != nil:
		return "", fmt.Errorf("%w (%s --help tells what there is)", err, program)
	}
	return parsed.Command(), nil
}

// Faults collects what is wrong with a command line.
type Faults []error

// Add notes what is wrong with the value of a flag, and what is allowed.
func (f *Faults) Add(flag, value, problem string) {
	*f = append(*f, fmt.Errorf("--%s %q: %s", flag, value, problem))
}

// AddError notes an error about a flag; nil is none.
func (f *Faults) AddError(flag string, err error) {
	if err != nil {
		*f = append(*f, fmt.Errorf("--%s: %w", flag, err))
	}
}

// Err returns all faults as one error; nil for none.
func (f Faults) Err() error {
	if len(f) > 1 {
		return fmt.Errorf("%d faults\n%w", len(f), errors.Join(f...))
	}
	return errors.Join(f...)
}

// Duration reads a duration within bounds.
func (f *Faults) Duration(flag, text string, least, most time.Duration) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		f.Add(flag, text, fmt.Sprintf("want a duration of %v to %v, as in 30s", least, most))
	}
	return d
}

// Int reads a whole number within bounds.
func (f *Faults) Int(flag, text string, least, most int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		f.Add(flag, text, fmt.Sprintf("want a whole number of %d to %d", least, most))
	}
	return n
}

// Share reads a share of 0 to 1.
func (f *Faults) Share(flag, text string) float64 {
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		f.Add(flag, text, "want a share of 0 to 1, as 0.05")
	}
	return share
}

// Address checks HOST:PORT.
func (f *Faults) Address(flag, text string) string {
	_, port, err := net.SplitHostPort(text)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
		f.Add(flag, text, "want HOST:PORT with a port of 0 (any free one) to 65535")
	}
	return text
}

// Loopback reports whether a host is this machine's alone: a loopback address, or
// localhost.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}

// WithoutUser cuts what stands before an @: a URL as it may be shown.
func WithoutUser(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// WithoutUsers is WithoutUser of a list of URLs with commas.
func WithoutUsers(text string) string {
	urls := strings.Split(text, ",")
	for i := range urls {
		urls[i] = WithoutUser(urls[i])
	}
	return strings.Join(urls, ",")
}
