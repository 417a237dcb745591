package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/testenv"
)

// Fleet is eight pods in processes of their own, this program again, over a
// cluster of three primaries.
type Fleet struct {
	cluster *testenv.RedisCluster
	pods    []*process
	played  int
}

// process is a pod as its parent sees it.
type process struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	seen   *json.Decoder
}

// Start starts the cluster and the pods. The program's main has to call RunPod
// where IsPod.
func Start(ctx context.Context) (*Fleet, error) {
	cluster, err := testenv.StartRedisCluster(ctx, testenv.RedisClusterConfig{Primaries: 3})
	if err != nil {
		return nil, err
	}
	f := &Fleet{cluster: cluster}
	for range Pods {
		p, err := start(ctx, "redis://"+strings.Join(cluster.Addresses(), ","))
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.pods = append(f.pods, p)
	}
	return f, nil
}

func start(ctx context.Context, url string) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, path)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), podEnv+"="+url), os.Stderr
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("a pod said %q, want ready: %w", line, err), p.cmd.Process.Kill(), p.cmd.Wait())
	}
	p.seen = json.NewDecoder(lines)
	return p, nil
}

// Close ends the pods, which hand back what they hold, and the cluster.
func (f *Fleet) Close() error {
	var errs []error
	for _, p := range f.pods {
		errs = append(errs, p.orders.Close(), p.cmd.Wait())
	}
	return errors.Join(append(errs, f.cluster.Close())...)
}

// beginIn is how long after it has been told a scenario begins: all pods know of
// it by then.
const beginIn = 100 * time.Millisecond

// Play plays a scenario, by its number, on an account that nobody has used, and
// returns what the pods saw and how long it took from the first arrival on.
func (f *Fleet) Play(number int, seed uint64, length time.Duration) (all Seen, took time.Duration, err error) {
	f.played++
	begin := time.Now().Add(beginIn)
	for i, p := range f.pods {
		o := order{Scenario: number, Pod: i, Account: fmt.Sprint("acct_", f.played), Seed: seed, Length: length, Begin: begin}
		if err := json.NewEncoder(p.orders).Encode(o); err != nil {
			return all, 0, fmt.Errorf("pod %d: %w", i, err)
		}
	}
	for i, p := range f.pods {
		var seen Seen
		if err := p.seen.Decode(&seen); err != nil {
			return all, 0, fmt.Errorf("pod %d: %w", i, err)
		}
		all.add(seen)
	}
	return all, time.Since(begin), nil
}
