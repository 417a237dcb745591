package redisbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// turn is what a contestant did in one slice.
type turn struct {
	perSecond      float64
	client, server time.Duration // of processor time a call
}

// turn lets a contestant call for a slice's length. The calls to the server that
// measure are in its figures: two, among thousands.
func (b *bench) turn(ctx context.Context, one contestant) (t turn, err error) {
	server, err := b.serverCPU(ctx)
	if err != nil {
		return t, err
	}
	client, err := processCPU()
	if err != nil {
		return t, err
	}
	begin := time.Now()
	calls, err := one.slice(ctx, b.Slice)
	took := time.Since(begin)
	if err != nil {
		return t, err
	}
	if calls == 0 {
		return t, errors.New("no call was answered")
	}
	clientNow, err := processCPU()
	if err != nil {
		return t, err
	}
	serverNow, err := b.serverCPU(ctx)
	return turn{
		perSecond: float64(calls) / took.Seconds(),
		client:    (clientNow - client) / time.Duration(calls), server: (serverNow - server) / time.Duration(calls),
	}, err
}

// processCPU is the processor time that this process has taken.
func processCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// serverCPU is the processor time that the server has taken.
func (b *bench) serverCPU(ctx context.Context) (total time.Duration, err error) {
	info, err := b.node.Do(ctx, "INFO", "cpu").ToString()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %w", err)
		}
		total += time.Duration(seconds * float64(time.Second))
	}
	if total == 0 {
		return 0, fmt.Errorf("INFO cpu tells no time: %q", info)
	}
	return total, nil
}

// report prints medians, and how many times as many calls, and as many limits that they
// check, the first makes in the same time: as medians over the turns.
func report(out io.Writer, procs int, all []contestant, turns [][]turn) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%d turns, GOMAXPROCS %d\tlimits a call\tcalls/s\tclient CPU a call\tserver CPU a call\tthe first: calls\tlimits\t\n", len(turns[0]), procs)
	for i, one := range all {
		ratio := median(len(turns[i]), func(k int) float64 { return turns[0][k].perSecond / turns[i][k].perSecond })
		rate := median(len(turns[i]), func(k int) float64 { return turns[i][k].perSecond })
		client := median(len(turns[i]), func(k int) float64 { return float64(turns[i][k].client) / float64(time.Microsecond) })
		server := median(len(turns[i]), func(k int) float64 { return float64(turns[i][k].server) / float64(time.Microsecond) })
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.1f µs\t%.1f µs\t%.2fx\t%.2fx\t\n", one.name, one.limits, rate, client, server, ratio, ratio*float64(all[0].limits)/float64(one.limits))
	}
	return table.Flush()
}

// median of n values.
func median(n int, value func(k int) float64) float64 {
	values := make([]float64, n)
	for k := range values {
		values[k] = value(k)
	}
	slices.Sort(values)
	return values[n/2]
}
