package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sigterm ends the gateway under load. Its clients go on until a connection is
// refused, longer than a load balancer would that looks at readiness. Nothing that
// was sent is lost, and the exit code is 0 within the drain time.
//
// The requests are POSTs: a client must not send those again by itself, so that
// each that gets no answer is one that was lost.
func sigterm(ctx context.Context, b *bench) (string, error) {
	var sent, answered, refused, afterReady atomic.Int64
	var mu sync.Mutex
	var lost []error
	var notReady atomic.Bool
	const underLoad = 1000 // answers before it is ended
	loaded := make(chan struct{})
	working, stop := context.WithCancel(ctx)
	defer stop()
	var workers sync.WaitGroup
	for name, client := range clients() {
		for range 16 {
			workers.Go(func() {
				for working.Err() == nil {
					sent.Add(1)
					late := notReady.Load()
					_, err := call(ctx, client, http.MethodPost, "http://"+b.gateway.API+"/work", strings.NewReader("x"), 1)
					switch {
					case err == nil:
						if answered.Add(1) == underLoad {
							close(loaded)
						}
						if late {
							afterReady.Add(1)
						}
					case errors.Is(err, syscall.ECONNREFUSED) && late:
						refused.Add(1) // nothing was sent; a load balancer would not have chosen this gateway
						return
					default:
						mu.Lock()
						lost = append(lost, fmt.Errorf("%s: %w", name, err))
						mu.Unlock()
						return
					}
				}
			})
		}
	}
	go watchReady(ctx, b.gateway.Admin, &notReady)
	select {
	case <-loaded:
	case <-ctx.Done():
	}
	took, err := b.gateway.Terminate(ctx)
	stop()
	workers.Wait()
	if err != nil {
		return "", fmt.Errorf("it ended with %w", err)
	}
	figures := fmt.Sprintf("%d requests sent, %d answered (%d of them after readiness was withdrawn), %d refused a connection afterwards, %d lost; exit code 0 after %v",
		sent.Load(), answered.Load(), afterReady.Load(), refused.Load(), len(lost), took.Round(time.Millisecond))
	switch {
	case len(lost) > 0:
		return figures, errors.Join(lost...)
	case !notReady.Load():
		return figures, errors.New("readiness was never withdrawn")
	case afterReady.Load() == 0:
		return figures, errors.New("nothing was served while not ready")
	case answered.Load()+refused.Load() != sent.Load():
		return figures, errors.New("the requests do not add up")
	}
	return figures, nil
}

// watchReady notes when the gateway says that it is not ready.
func watchReady(ctx context.Context, admin string, notReady *atomic.Bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := call(ctx, http.DefaultClient, http.MethodGet, "http://"+admin+"/readyz", nil, 0)
		if err != nil {
			notReady.Store(true)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
