package rediscluster

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// BenchmarkTake asks for two buckets of accounts in turn, 1,000 of them, from so many
// goroutines at once.
func BenchmarkTake(b *testing.B) {
	url := envtest.Redis(b, testenv.RedisConfig{}).URL()
	for _, inFlight := range []int{1, 64} {
		b.Run(fmt.Sprint(inFlight), func(b *testing.B) {
			s, err := New(Config{URL: url, Timeout: 5 * time.Second})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(s.Close)
			waitConnected(b, s)
			asks := benchmarkAsks(b, 1000)
			procs := runtime.GOMAXPROCS(0)
			if inFlight == 1 {
				procs = 1
			}
			b.SetParallelism(max(1, inFlight/procs))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				var result store.Result
				for i := 0; p.Next(); i++ {
					if err := s.Take(b.Context(), &asks[i%len(asks)], &result); err != nil || !result.Allowed {
						b.Errorf("allowed %v, %v", result.Allowed, err)
						return
					}
				}
			})
		})
	}
}

func benchmarkAsks(b *testing.B, n int) []store.Ask {
	b.Helper()
	entries := []store.Entry{bucketEntry("account"), bucketEntry("route")}
	asks := make([]store.Ask, n)
	for i := range asks {
		subject, err := limit.NewSubject("bench", limit.Account, fmt.Sprint("acct_", i))
		if err != nil {
			b.Fatal(err)
		}
		asks[i] = store.Ask{Subject: subject, Entries: entries}
	}
	return asks
}

func bucketEntry(id string) store.Entry {
	r := &limit.Rule{
		Domain: "bench", ID: id, Kind: limit.Account, Algorithm: limit.TokenBucket, Mode: limit.Enforce, FailMode: limit.FailOpen,
		Limit: limit.Limit{Rate: 1e6, Burst: 1e8}, Tag: limit.TagOf("bench", id, limit.TokenBucket),
	}
	return store.Entry{Rule: r, Limit: r.Limit, Need: 1, Want: 1}
}
