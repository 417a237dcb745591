package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/shiplane/limits/dev/internal/control"
	"github.com/shiplane/limits/dev/internal/stack"
	"github.com/shiplane/limits/libs/testenv"
)

const (
	refresh   = time.Second // between two tables on a terminal
	shardsFew = 4           // of a region: more of them are told by their number
	mebibyte  = 1 << 20     // bytes
	redraw    = "\x1b[H\x1b[J"
)

type statusCommand struct {
	All  bool `env:"-" help:"Show each Redis server and shard, too."`
	Once bool `env:"-" help:"Show it once, on a terminal too."`
	JSON bool `name:"json" env:"-" help:"Print JSON, once."`
}

func (c *statusCommand) run(ctx context.Context, client *control.Client, stdout io.Writer) error {
	height := 0 // of the terminal; 0: none
	if file, ok := stdout.(*os.File); ok && !c.Once && !c.JSON {
		if size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ); err == nil {
			height = int(size.Row)
		}
	}
	for {
		status, err := client.Status(ctx)
		switch {
		case errors.Is(err, context.Canceled): // Ctrl-C
			return nil
		case err != nil:
			return err
		case c.JSON:
			return json.NewEncoder(stdout).Encode(status)
		case height == 0:
			return table(stdout, &status, c.All)
		}
		var text strings.Builder
		if err := table(&text, &status, c.All); err != nil {
			return err
		}
		fmt.Fprint(stdout, redraw, cutTo(text.String(), height-1))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(refresh):
		}
	}
}

// cutTo cuts a text to so many lines, and says how many it lacks.
func cutTo(text string, height int) string {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) <= height || height < 2 {
		return text
	}
	return strings.Join(lines[:height-1], "") + fmt.Sprintf("… %d more lines: dev status --once", len(lines)-height)
}

// table prints a status.
func table(out io.Writer, s *stack.Status, all bool) error {
	var memory int64
	running := 0
	for _, p := range s.Parts {
		memory += p.Memory
		if p.State != stack.Dead {
			running++
		}
	}
	ready := "not ready yet"
	if s.Took > 0 {
		ready = "ready in " + s.Took.Round(time.Second/10).String()
	}
	fmt.Fprintf(out, "Up for %v (%s): %d processes, %d MiB; owner %d, folder %s\n\n",
		time.Since(s.Since).Round(time.Second), ready, running, memory/mebibyte, s.PID, s.Dir)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REGION\tSLOTS\tSERVED BY\tREPLICAS")
	for i := range s.Regions {
		regionRows(t, &s.Regions[i], all)
	}
	fmt.Fprintln(t)
	if err := t.Flush(); err != nil {
		return err
	}
	t = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROCESS\tSTATE\tPID\tMIB\tADDRESS\tRULES\tPODS\tBREAKERS")
	for i := range s.Parts {
		p := &s.Parts[i]
		if p.Kind == stack.KindRedis && p.State == stack.Running && !all {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", p.Name, p.State, p.PID, p.Memory/mebibyte, p.Address, optional(p.Revision), optional(p.Pods), breakers(p))
	}
	return t.Flush()
}

func regionRows(t io.Writer, r *stack.RegionStatus, all bool) {
	cut := ""
	if r.Partitioned {
		cut = " (cut off from its pods)"
	}
	if r.Fault != "" {
		fmt.Fprintf(t, "%s\t%s%s\t\t\n", r.Name, r.Fault, cut)
		return
	}
	if len(r.Shards) > shardsFew && !all {
		replicas := 0
		for _, shard := range r.Shards {
			replicas += len(shard.Replicas)
		}
		fmt.Fprintf(t, "%s\t%d of %d%s\t%d primaries\t%d\n", r.Name, r.Slots, testenv.Slots, cut, len(r.Shards), replicas)
		return
	}
	for _, shard := range r.Shards {
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\n", r.Name, shard.Slots, cut, shard.Primary, dash(strings.Join(shard.Replicas, " ")))
	}
	if missing := testenv.Slots - r.Slots; missing > 0 {
		fmt.Fprintf(t, "%s\t%d slots%s\tnobody\t-\n", r.Name, missing, cut)
	}
}

// breakers tells which of a pod's breakers are not closed. One that has never
// changed is not told of, and closed.
func breakers(p *stack.PartStatus) string {
	var told []string
	for _, shard := range slices.Sorted(maps.Keys(p.Breakers)) {
		if state := p.Breakers[shard]; state != "closed" {
			told = append(told, state+" "+shard)
		}
	}
	if len(told) == 0 && p.Pods != nil {
		return "closed"
	}
	return dash(strings.Join(told, ", "))
}

func optional(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
