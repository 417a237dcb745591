package testenv

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A configuration that cannot work is refused before anything is started, and
// every fault is named at once, with its value and what is allowed.
func TestConfigFaultsAreNamed(t *testing.T) {
	ctx := t.Context()
	_, err := StartRedisCluster(ctx, RedisClusterConfig{Primaries: 65, Replicas: 6, NodeTimeout: time.Millisecond})
	mustSay(t, err, "primaries: 65, want 1 to 64", "replicas: 6, want 0 to 5", "node timeout: 1ms, want 200ms to 1m0s")
	_, err = StartRedis(ctx, RedisConfig{
		Users:  []User{{Name: "a b"}, {Name: "twice"}, {Name: "twice"}, {Name: "testenv"}},
		Config: map[string]string{"maxmemory": "1\nrequirepass x"},
	})
	mustSay(t, err, `"a b"`, `"twice"`, `"testenv"`, `"maxmemory"`)
	_, err = StartRedis(ctx, RedisConfig{Address: "0.0.0.0"})
	mustSay(t, err, `"0.0.0.0"`, "loopback")
	_, err = StartPostgres(ctx, PostgresConfig{Address: "::1"})
	mustSay(t, err, `"::1"`, "loopback")
}

func mustSay(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// Each form of a line of CLUSTER NODES is read, and one that is not is named.
func TestNodesAreRead(t *testing.T) {
	got, err := parseNodes(`aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-10 12 [11->-bb] [13-<-bb]
bb 127.0.0.1:7001@17001,host slave,fail? aa 0 1426238317239 4 disconnected
`)
	want := map[string]member{
		"aa": {flags: []string{"myself", "master"}, slots: []SlotRange{{0, 10}, {12, 12}}},
		"bb": {flags: []string{"slave", "fail?"}, primary: "aa"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(member{})); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for _, text := range []string{"short line\n", "a b master - 0 0 1 connected x-7\n", "a b master - 0 0 1 connected 7-x\n"} {
		if _, err := parseNodes(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// A cluster is healthy only if no running node has a doubt of any kind.
func TestHealthIsOneMind(t *testing.T) {
	primary, replica := &Node{name: "primary", id: "aa"}, &Node{name: "replica", id: "bb"}
	see := func() *view {
		return &view{ok: true, linked: true, members: map[string]member{
			"aa": {flags: []string{"master"}, slots: []SlotRange{{0, Slots - 1}}},
			"bb": {flags: []string{"slave"}, primary: "aa"},
			"cc": {flags: []string{"master", "fail"}}, // dead, and so nobody's matter
		}}
	}
	for name, test := range map[string]struct {
		change func(of *view)
		want   string // empty: healthy
	}{
		"healthy":        {func(*view) {}, ""},
		"down":           {func(v *view) { v.ok = false }, "cluster is down"},
		"no data":        {func(v *view) { v.linked = false }, "data"},
		"unknown":        {func(v *view) { delete(v.members, "aa") }, "does not know"},
		"suspected":      {func(v *view) { v.members["bb"] = member{flags: []string{"fail?"}, primary: "aa"} }, "flag fail?"},
		"another role":   {func(v *view) { v.members["bb"] = member{} }, "differ"},
		"other slots":    {func(v *view) { v.members["aa"] = member{slots: []SlotRange{{0, 9}}} }, "differ"},
		"all miss slots": {nil, "16383 of 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			views := map[*Node]*view{primary: see(), replica: see()}
			if test.change != nil {
				test.change(views[replica])
			} else {
				for _, v := range views {
					v.members["aa"] = member{slots: []SlotRange{{0, Slots - 2}}}
				}
			}
			if err := healthy(views); test.want == "" && err != nil {
				t.Error(err)
			} else if test.want != "" {
				mustSay(t, err, test.want)
			}
		})
	}
}
