package latency

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/serve"
	"github.com/shiplane/limits/perf/internal/pod"
	"github.com/shiplane/limits/perf/loadgen"
)

// pairsMin is the least number of pairs that a figure is made of.
const pairsMin = 20

// flags is the command line.
type flags struct {
	Gateway     string        `default:"bin/gateway" placeholder:"FILE" help:"The gateway to measure (default bin/gateway; make run builds it)."`
	Rules       string        `default:"gateway/internal/demo/rules.yaml" placeholder:"FILE" help:"Rules that the load keeps to (default: the demo's)."`
	Keys        string        `default:"gateway/internal/demo/keys.yaml" placeholder:"FILE" help:"Keys (default: the demo's)."`
	Key         string        `default:"demo-enterprise" help:"The key that the load is sent with (default demo-enterprise, 1,000/s)."`
	Path        string        `default:"/v1/labels" help:"What is asked for (default /v1/labels)."`
	Rate        float64       `default:"400" placeholder:"N" help:"Requests a second; keep below the limit, for a refusal is quicker than an answer (default 400)."`
	Pairs       int           `default:"24" placeholder:"N" help:"Pairs of slices, 20 or more (default 24)."`
	Slice       time.Duration `default:"2s" help:"Length of a slice (default 2s)."`
	GatewayFlag []string      `sep:"none" placeholder:"FLAG" help:"Further flag of both gateways, as --gateway-flag=--store=redis://127.0.0.1:6379; may be repeated."`
}

// Main runs the command line args and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	err := run(args, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "latency: %v\n", err)
	}
	return serve.ExitCode(err)
}

func run(args []string, stdout io.Writer) error {
	var f flags
	parser, err := kong.New(&f, kong.Name("latency"), kong.Description("Measure what the limiter adds to a request, against the same gateway with --mode off."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(args); err != nil {
		return serve.Usage(err)
	}
	if f.Pairs < pairsMin {
		return serve.Usage(fmt.Errorf("--pairs %d: want %d or more", f.Pairs, pairsMin))
	}
	ctx, stop := serve.UntilSignal(context.Background())
	defer stop()
	upstream, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer upstream.Close()
	with, err := f.start(ctx, upstream.Addr(), "enforce")
	if err != nil {
		return err
	}
	defer with.Kill()
	without, err := f.start(ctx, upstream.Addr(), "off")
	if err != nil {
		return err
	}
	defer without.Kill()
	pairs, err := f.measure(ctx, with, without)
	if err != nil {
		return err
	}
	report(stdout, f, pairs)
	return nil
}

// startUpstream serves a short answer to everything.
func startUpstream(ctx context.Context) (net.Listener, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })}
	go func() { _ = server.Serve(l) }()
	return l, nil
}

func (f *flags) start(ctx context.Context, upstream net.Addr, mode string) (*pod.Pod, error) {
	return pod.Start(ctx, f.Gateway, append([]string{
		"--upstream", "http://" + upstream.String(), "--rules", f.Rules, "--keys", f.Keys, "--mode", mode,
	}, f.GatewayFlag...)...)
}

// pair is two slices, one after the other.
type pair struct{ with, without loadgen.StreamReport }

func (f *flags) measure(ctx context.Context, with, without *pod.Pod) (pairs []pair, err error) {
	slice := func(p *pod.Pod) (loadgen.StreamReport, error) {
		cfg, err := loadgen.Defaults()
		if err != nil {
			return loadgen.StreamReport{}, err
		}
		cfg.Target, cfg.Duration, cfg.Connections, cfg.Workers = "http://"+p.API, f.Slice, 32, 128
		cfg.Streams = []loadgen.Stream{{Plan: "load", Key: f.Key, Rate: limit.Rate(f.Rate), Path: f.Path, Method: http.MethodGet, Cost: 1}}
		r, err := loadgen.Run(ctx, cfg, io.Discard)
		if err != nil {
			return loadgen.StreamReport{}, err
		}
		if s := r.Streams[0]; s.Admitted == s.Sent && s.Sent > 0 && ctx.Err() == nil {
			return s, nil
		}
		return r.Streams[0], fmt.Errorf("of %d requests %d were admitted and %d refused (%s): what refusals take says nothing of what the limiter adds",
			r.Streams[0].Sent, r.Streams[0].Admitted, r.Streams[0].Refused, r.Streams[0].FirstError)
	}
	const warmUp = 1 // pairs that are not counted
	for i := range f.Pairs + warmUp {
		var made pair
		first, second := &made.with, &made.without
		order := [...]*pod.Pod{with, without}
		if i%2 == 1 {
			first, second = second, first
			order[0], order[1] = order[1], order[0]
		}
		if *first, err = slice(order[0]); err != nil {
			return nil, err
		}
		if *second, err = slice(order[1]); err != nil {
			return nil, err
		}
		if i >= warmUp {
			pairs = append(pairs, made)
		}
	}
	return pairs, nil
}

// report tells the quartiles of the differences, and of what they are made of.
func report(w io.Writer, f flags, pairs []pair) {
	fmt.Fprintf(w, "%d pairs of slices of %v at %g/s, %s %s\n", len(pairs), f.Slice, f.Rate, f.Key, f.Path)
	late := 0
	for _, p := range pairs {
		if p.with.Behind || p.without.Behind {
			late++
		}
	}
	for _, q := range [...]struct {
		name string
		of   func(loadgen.Quantiles) float64
	}{
		{"p50", func(q loadgen.Quantiles) float64 { return q.P50 }},
		{"p90", func(q loadgen.Quantiles) float64 { return q.P90 }},
		{"p99", func(q loadgen.Quantiles) float64 { return q.P99 }},
	} {
		var with, without, added []float64
		for _, p := range pairs {
			a, b := q.of(p.with.Latency), q.of(p.without.Latency)
			with, without, added = append(with, a), append(without, b), append(added, a-b)
		}
		fmt.Fprintf(w, "%s  with %s  without %s  added %s\n", q.name, quartiles(with), quartiles(without), quartiles(added))
	}
	fmt.Fprintf(w, "(median, first and third quartile over the pairs, in ms; in %d pairs the generator was late)\n", late)
}

func quartiles(values []float64) string {
	slices.Sort(values)
	at := func(share float64) float64 { return values[int(share*float64(len(values)-1)+0.5)] }
	return fmt.Sprintf("%+.3f [%+.3f %+.3f]", at(0.5), at(0.25), at(0.75))
}
