package remote

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// slice is how many asks of one way go before those of the next.
const slice = 2000

// BenchmarkProtocols is what an ask takes of the processor, of client and server
// together, by each way that it could travel: slices of the ways take turns. An
// operation is a slice of each.
func BenchmarkProtocols(b *testing.B) {
	for _, inFlight := range []int{1, 64} {
		b.Run(fmt.Sprint(inFlight, "-in-flight"), func(b *testing.B) {
			c := startChecker(b, counting(b), func(server *httptest.Server) {
				server.Config.Protocols = new(http.Protocols)
				server.Config.Protocols.SetHTTP1(true)
				server.Config.Protocols.SetUnencryptedHTTP2(true)
			})
			ways := []struct {
				name  string
				store *Store
				took  time.Duration
			}{{name: "http1"}, {name: "http2"}, {name: "http1-gzip"}}
			for i := range ways {
				ways[i].store, _ = open(b, Config{Timeout: ample}, c)
				<-ways[i].store.Reached()
			}
			other := newTransport(nil)
			other.Protocols = new(http.Protocols)
			other.Protocols.SetUnencryptedHTTP2(true)
			ways[1].store.endpoints[0].transport = other
			zipped := ways[2].store.endpoints[0]
			zipped.checks = checkv1.NewCheckServiceClient(&http.Client{Transport: zipped.transport}, c.url, connect.WithSendGzip())
			calls := c.calls.Load()
			for b.Loop() {
				for i := range ways {
					before := processor(b)
					asks(b, ways[i].store, inFlight)
					ways[i].took += processor(b) - before
				}
			}
			for _, w := range ways {
				b.ReportMetric(float64(w.took.Nanoseconds())/1e3/slice/float64(b.N), w.name+"-µs/ask")
			}
			b.ReportMetric(float64(slice*len(ways)*b.N)/float64(c.calls.Load()-calls), "asks/call")
		})
	}
}

// asks sends a slice of asks, so many at once.
func asks(b *testing.B, s *Store, inFlight int) {
	b.Helper()
	together(inFlight, func(caller int) {
		account := fmt.Sprint("acct-", caller)
		for range slice / inFlight {
			if _, err := take(b, s, account); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// processor is the time that this process has had of the processors.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
