package edge

import (
	"bufio"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/websocket"
)

// bodyMemory is what a large body may cost the gateway: buffers of both
// connections, whatever the length.
const bodyMemory = 64 << 20

// clients are one of each version of HTTP.
func clients() map[string]*http.Client {
	made := map[string]*http.Client{}
	for name, set := range map[string]func(*http.Protocols, bool){
		"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2": (*http.Protocols).SetUnencryptedHTTP2,
	} {
		transport := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: 64}
		set(transport.Protocols, true)
		made[name] = &http.Client{Transport: transport}
	}
	return made
}

// bodies sends and fetches a large body by each version of HTTP, whole and
// unchanged, in memory that does not grow with it.
func bodies(ctx context.Context, b *bench) (string, error) {
	sum := fnv.New64a()
	if _, err := io.CopyN(sum, newPattern(), b.Body); err != nil {
		return "", err
	}
	want := sum.Sum64()
	var figures strings.Builder
	for name, client := range clients() {
		began := time.Now()
		said, err := call(ctx, client, http.MethodPut, "http://"+b.gateway.API+"/upload", io.LimitReader(newPattern(), b.Body), b.Body)
		if err != nil {
			return figures.String(), err
		}
		if want := fmt.Sprintf("%d %x <nil>", b.Body, want); said != want {
			return figures.String(), fmt.Errorf("upload by %s: the upstream got %s, want %s", name, said, want)
		}
		fmt.Fprintf(&figures, "%s up %.0f MiB/s, ", name, mibPerSecond(b.Body, began))
		began = time.Now()
		got, err := fetch(ctx, client, fmt.Sprintf("http://%s/download?bytes=%d", b.gateway.API, b.Body))
		if err != nil {
			return figures.String(), err
		}
		if got != want {
			return figures.String(), fmt.Errorf("download by %s: another body came", name)
		}
		fmt.Fprintf(&figures, "down %.0f MiB/s; ", mibPerSecond(b.Body, began))
	}
	return figures.String(), b.gateway.Within(bodyMemory)
}

func mibPerSecond(size int64, began time.Time) float64 {
	return float64(size) / (1 << 20) / time.Since(began).Seconds()
}

func call(ctx context.Context, client *http.Client, method, url string, body io.Reader, size int64) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return "", err
	}
	r.ContentLength = size
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s %s", method, url, response.Status, said)
	}
	return string(said), err
}

func fetch(ctx context.Context, client *http.Client, url string) (uint64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	sum := fnv.New64a()
	_, err = io.Copy(sum, response.Body)
	return sum.Sum64(), err
}

// websockets echoes messages of many sizes, each before the next is sent.
func websockets(_ context.Context, b *bench) (string, error) {
	c, err := websocket.Dial("ws://"+b.gateway.API+"/socket", "", "http://"+b.gateway.API+"/")
	if err != nil {
		return "", err
	}
	defer c.Close()
	const rounds = 5000
	var took []time.Duration
	for i := range rounds {
		sent := strings.Repeat("x", 1+i*7%40_000)
		began := time.Now()
		if _, err := io.WriteString(c, sent); err != nil {
			return "", err
		}
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(c, got); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
		if string(got) != sent {
			return "", fmt.Errorf("message %d came back changed", i)
		}
	}
	slices.Sort(took)
	return fmt.Sprintf("%d messages of 1 to 40,000 bytes echoed, median %v, p99 %v", rounds, took[rounds/2].Round(time.Microsecond), took[rounds*99/100].Round(time.Microsecond)), nil
}

// events reads a stream of events for as long as asked: each comes once, in order,
// and soon after it was made.
func events(ctx context.Context, b *bench) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.gateway.API+"/events", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var worst time.Duration
	next := 0
	began := time.Now()
	for s := bufio.NewScanner(response.Body); time.Since(began) < b.Stream; {
		if !s.Scan() {
			return "", fmt.Errorf("the stream ended after %v: %w", time.Since(began), s.Err())
		}
		if s.Text() == "" {
			continue
		}
		var number int
		var made int64
		if _, err := fmt.Sscanf(s.Text(), "data: %d %d", &number, &made); err != nil || number != next {
			return "", fmt.Errorf("got %q, want event %d", s.Text(), next)
		}
		worst = max(worst, time.Since(time.Unix(0, made)))
		next++
	}
	if most := eventEvery; worst > most {
		return "", fmt.Errorf("an event took %v, want at most %v", worst, most)
	}
	return fmt.Sprintf("%d events in %v, the slowest after %v", next, b.Stream, worst.Round(10*time.Microsecond)), nil
}
