package exactness

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/bucket"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/store"
	"github.com/shiplane/limits/libs/store/rediscluster"
	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

const (
	processes  = 8
	goroutines = 6           // of each process
	timeout    = time.Second // of a call: nothing may stay unknown
)

// run has the processes hammer a cluster and returns all that they saw, sorted.
func run(t *testing.T, url string, length time.Duration, lose string) Tally {
	t.Helper()
	var all Tally
	var children []*child
	for i := range processes {
		children = append(children, start(t, hammerURL+"="+url, hammerSeed+"="+strconv.Itoa(i+1), hammerFor+"="+length.String(), hammerLose+"="+lose))
	}
	for _, c := range children {
		c.begin(t)
	}
	for _, c := range children {
		tally := c.tally(t)
		all.Events = append(all.Events, tally.Events...)
		all.Granted, all.Refused, all.Unknown = all.Granted+tally.Granted, all.Refused+tally.Refused, append(all.Unknown, tally.Unknown...)
	}
	Sort(all.Events)
	if len(all.Unknown) > 0 {
		t.Fatalf("%d asks were not answered within %v, which is the machine's fault or the store's; the first: %s", len(all.Unknown), timeout, all.Unknown[0])
	}
	t.Logf("%d processes: %d asks granted, %d refused, %d events", processes, all.Granted, all.Refused, len(all.Events))
	return all
}

// replay replays every bucket and calls visit with what came of it.
func replay(events []Event, visit func(Bucket, Verdict)) {
	byBucket := map[Bucket][]Event{}
	for _, e := range events {
		byBucket[e.Bucket] = append(byBucket[e.Bucket], e)
	}
	for account := range Accounts {
		for rule := range 1 + routes {
			b := Bucket{account, rule}
			rate, burst := limitOf(b)
			visit(b, Replay(rate, burst, byBucket[b]))
		}
	}
}

// Whatever eight processes ask at once, no bucket ever gives more than burst +
// rate · t over any window, and none loses a token: the store ends with just what
// the history leaves. Buckets that do not refill are spent to their last token,
// each token once. A refused ask changes no byte of any key.
func TestEightProcessesChargeExactly(t *testing.T) {
	length := 10 * time.Second
	if testing.Short() {
		length = 2 * time.Second
	}
	cluster := envtest.RedisCluster(t, testenv.RedisClusterConfig{Primaries: 3})
	url := "redis://" + strings.Join(cluster.Addresses(), ",")
	all := run(t, url, length, "")
	if all.Refused == 0 || all.Granted == 0 {
		t.Fatalf("set-up: %d granted and %d refused, want both: nothing was contended", all.Granted, all.Refused)
	}
	left := inspect(t, url)
	replay(all.Events, func(b Bucket, v Verdict) {
		_, burst := limitOf(b)
		if v.Excess > 0 {
			t.Errorf("%+v gave %d.%06d tokens above burst + rate · t over a window that ends at %v", b, v.Excess/micro, v.Excess%micro, v.ExcessAt)
		}
		if b.Account >= onceFrom && b.Rule == 0 && v.Level != 0 && !testing.Short() {
			t.Errorf("%+v of %d tokens gave %d, %d were handed back", b, burst, v.Granted, v.Given)
		}
		held := left[b]
		rate, _ := limitOf(b)
		then := min(burst*micro, v.Level+(held.At-v.Last).Microseconds()*rate)
		if v.Events > 0 && math.Abs(held.Level*micro-float64(then)) > 1 {
			t.Errorf("%+v: the store holds %.6f tokens, the history leaves %.6f", b, held.Level, float64(then)/micro)
		}
	})
	refusals(t, url)
}

// A store that forgets one charge in a hundred is found out: the check that
// finds nothing elsewhere can find something.
func TestForgottenChargesAreFound(t *testing.T) {
	cluster := envtest.RedisCluster(t, testenv.RedisClusterConfig{Primaries: 3})
	url := "redis://" + strings.Join(cluster.Addresses(), ",")
	all := run(t, url, 2*time.Second, "100")
	found := 0
	replay(all.Events, func(_ Bucket, v Verdict) {
		if v.Excess > 0 {
			found++
		}
	})
	if found == 0 {
		t.Errorf("one charge in 100 was forgotten, and no bucket of %d events shows it", len(all.Events))
	}
	t.Logf("%d buckets gave more than they had", found)
}

// inspect reads what every bucket holds, each at a time of its own.
func inspect(t *testing.T, url string) map[Bucket]bucket.Tokens {
	t.Helper()
	i, err := rediscluster.NewInspector(rediscluster.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	all := map[Bucket]bucket.Tokens{}
	for account := range Accounts {
		subject, err := subjectOf(account)
		if err != nil {
			t.Fatal(err)
		}
		var entries []store.Entry
		for rule := range 1 + routes {
			entries = append(entries, entryOf(Bucket{account, rule}))
		}
		reading, err := i.Read(t.Context(), subject, entries)
		if err != nil {
			t.Fatal(err)
		}
		for rule, held := range reading.Counters {
			all[Bucket{account, rule}] = bucket.Tokens{Level: held.Level, At: reading.At}
		}
	}
	return all
}

// refusals asks, of a sample of accounts and while nobody else does, for more
// than there is, and compares every key before and after.
func refusals(t *testing.T, url string) {
	t.Helper()
	s, err := connected(url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client := dial(t, url)
	for account := onceFrom; account < Accounts; account++ {
		subject, err := subjectOf(account)
		if err != nil {
			t.Fatal(err)
		}
		once, route, log := entryOf(Bucket{account, 0}), entryOf(Bucket{account, 1}), logEntry()
		once.Need, once.Want = onceBurst, onceBurst // a process took some of it
		route.Need, route.Want = 1, 40
		attempt := store.Ask{Subject: subject, Entries: []store.Entry{log}}
		var result store.Result
		if err := s.Take(t.Context(), &attempt, &result); err != nil || !result.Allowed {
			t.Fatalf("set-up: a login is %+v, %v", result, err)
		}
		keys := []string{rediscluster.Key(subject), rediscluster.LogKey(subject, log.Rule.ID)}
		before := bytesOf(t, client, keys)
		log.Member++
		for _, entries := range [][]store.Entry{{once}, {route, once}, {log}, {route, once, log}, {tooMuch(route)}} {
			if err := s.Take(t.Context(), &store.Ask{Subject: subject, Entries: entries}, &result); err != nil || result.Allowed {
				t.Fatalf("set-up: account %d: %+v, %v: want a refusal", account, result, err)
			}
			if after := bytesOf(t, client, keys); !slices.Equal(before, after) {
				t.Errorf("a refusal of %d entries changed a key of account %d", len(entries), account)
			}
		}
	}
}

// logEntry is a log of one attempt an hour.
func logEntry() store.Entry {
	l := limit.Limit{Count: 1, Window: time.Hour}
	r := &limit.Rule{Domain: "exactness", ID: "login", Kind: limit.Account, Algorithm: limit.SlidingLog, Limit: l, Mode: limit.Enforce, FailMode: limit.FailClosed, Counts: limit.CountRequests}
	r.Tag = limit.TagOf(r.Domain, r.ID, r.Algorithm)
	return store.Entry{Rule: r, Limit: l, Need: 1, Want: 1, Member: 1}
}

// tooMuch asks for more than a full bucket.
func tooMuch(e store.Entry) store.Entry {
	e.Need, e.Want = e.Limit.Burst+1, e.Limit.Burst+1
	return e
}

// dial is a client past the store.
func dial(t *testing.T, url string) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(strings.TrimPrefix(url, "redis://"), ","), DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// bytesOf is each key's serialised value, the value itself where it is a text,
// and when it expires.
func bytesOf(t *testing.T, client rueidis.Client, keys []string) (all []string) {
	t.Helper()
	for i, key := range keys {
		dump, err := client.Do(t.Context(), client.B().Dump().Key(key).Build()).ToString()
		if err != nil {
			t.Fatalf("DUMP %s: %v", key, err)
		}
		expires, err := client.Do(t.Context(), client.B().Pexpiretime().Key(key).Build()).AsInt64()
		if err != nil {
			t.Fatalf("PEXPIRETIME %s: %v", key, err)
		}
		all = append(all, dump, strconv.FormatInt(expires, 10))
		if i == 0 {
			value, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
			if err != nil {
				t.Fatalf("GET %s: %v", key, err)
			}
			all = append(all, value)
		}
	}
	return all
}
