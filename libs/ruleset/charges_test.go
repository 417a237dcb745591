package ruleset

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// A rule that is named charges as a request that meets it: override and ban in
// force at that time, and in shadow what it is compared with, the one whose word
// counts first.
func TestNamedRuleChargesAsIfMet(t *testing.T) {
	edit := bucketRule("a", 1, 5)
	edit.Version = 7
	address := bucketRule("ip", 1, 5)
	address.Identity = rulesv1.Identity_IDENTITY_IP
	set := apply(t, Empty("public-api", WithCanary(true)), bucketRule("a", 10, 20), bucketRule("b", 10, 20), address,
		&rulesv1.Override{Id: "o-1", Rule: "b", Key: "acct", Burst: proto.Int64(50)},
		&rulesv1.Candidate{Rule: edit, Stage: rulesv1.Stage_STAGE_CANARY})
	for _, c := range []struct{ rule, key, first, second string }{
		{"b", "acct", "b 10/s burst 50", ""}, {"b", "other", "b 10/s burst 20", ""}, {"a", "acct", "a@7 1/s burst 5", "a 10/s burst 20"},
		{"ip", "2001:db8::1", "ip 1/s burst 5", ""},
	} {
		charges, ok, err := set.AppendCharges(nil, time.Now(), c.rule, c.key, 3)
		if err != nil || !ok || len(charges) == 0 || (len(charges) == 2) != (c.second != "") {
			t.Fatalf("%+v: got %v, %v, %v", c, charges, ok, err)
		}
		for i, want := range []string{c.first, c.second}[:len(charges)] {
			if got := charges[i].Rule.ID + " " + charges[i].Limit.String(); got != want || charges[i].Cost != 3 {
				t.Errorf("%+v: charge %d is %s of %d", c, i, got, charges[i].Cost)
			}
		}
	}
	if _, ok, _ := set.AppendCharges(nil, time.Now(), "nonsense", "x", 1); ok {
		t.Error("an unknown rule charges")
	}
	if _, ok, err := set.AppendCharges(nil, time.Now(), "ip", "no address", 1); !ok || err == nil {
		t.Error("a key that is no address charges a rule by address")
	}
}
