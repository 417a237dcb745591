package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	vegeta "github.com/tsenart/vegeta/v12/lib"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // the report could not be written
	exitUsage  = 2 // a flag is wrong; nothing was sent
)

// Main is the command: it parses args, runs, and writes the report to stdout
// and the progress to stderr. It returns the process's exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cfg Config
	asked := false // for help or for nothing: kong has answered
	parser, err := kong.New(&cfg,
		kong.Name("loadgen"),
		kong.Description("Sends HTTP requests at a fixed rate, whatever the replies do, and compares what was admitted with B + R·t. Times and counts are per stream and plan."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { asked = true }))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if asked {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
		return exitUsage
	}
	report, err := Run(ctx, cfg, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "loadgen: %v\n", err)
		return exitUsage
	}
	if err := report.write(cfg.JSON, stdout); err != nil {
		fmt.Fprintf(stderr, "loadgen: the report: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// write writes the text to stdout and JSON to the file, or JSON alone to stdout
// where the file is "-".
func (r *Report) write(file string, stdout io.Writer) error {
	if file == "-" {
		return r.WriteJSON(stdout)
	}
	if err := r.WriteText(stdout); err != nil || file == "" {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(r.WriteJSON(f), f.Close())
}

// Run sends the plan of cfg and returns what came of it, when every reply is in
// or has timed out: at most cfg.Duration and three timeouts later. Cancelling ctx
// ends the sending; what was sent is still waited for and reported. A line a
// second goes to progress. An error names every fault of cfg; then nothing was
// sent.
func Run(ctx context.Context, cfg Config, progress io.Writer) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	client := newClient(&cfg)
	defer client.CloseIdleConnections()

	start := time.Now()
	tally := newTally(&cfg, start)
	attacks := make([]*attack, len(cfg.Streams))
	for i := range attacks {
		attacks[i] = newAttack(ctx, &cfg, i, start)
	}
	var running sync.WaitGroup
	for i, a := range attacks {
		running.Go(func() {
			a.run(client, func(s shot, result *vegeta.Result) { tally.record(i, s, result) })
		})
	}
	sent := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watch(tally, attacks, progress, sent) })
	running.Wait()
	close(sent)
	watching.Wait()
	return tally.report(&cfg, attacks, ctx.Err() != nil), nil
}

// progressEvery is the time between two lines of progress.
const progressEvery = time.Second

func watch(t *tally, attacks []*attack, w io.Writer, stop <-chan struct{}) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			t.writeProgress(attacks, w)
		}
	}
}

func (t *tally) writeProgress(attacks []*attack, w io.Writer) {
	flying := 0
	for _, a := range attacks {
		flying += a.inFlight()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(w, "%3.0fs  %d in flight", time.Since(t.start).Seconds(), flying)
	for i := range t.streams {
		s := &t.streams[i]
		fmt.Fprintf(w, "  | %s %s: sent %d admitted %d refused %d unavailable %d errors %d p99 %.3g ms", s.stream.Plan, s.stream.Path,
			s.sent, s.admitted, s.refused, s.unavailable, s.failed, float64(s.latency.ValueAtPercentile(99))/1000)
	}
	fmt.Fprintln(w)
}
