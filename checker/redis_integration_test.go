package checker

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/shiplane/limits/libs/testenv"
	"github.com/shiplane/limits/libs/testenv/envtest"
)

// Over a real Redis two checkers count as one for their Envoys.
func TestEnvoysOfTwoCheckersShareACount(t *testing.T) {
	redis := envtest.Redis(t, testenv.RedisConfig{})
	store := "--store=" + redis.URL()
	var envoys []*envoyCaller
	for _, pod := range []string{"one", "two"} {
		s, e := startEnvoy(t, store, "--pod-id="+pod, "--region-pods=2", "--store-timeout=1s")
		poll(t, "the store has answered", func() bool { return s.do(http.MethodGet, s.admin+"/readyz", "").StatusCode == http.StatusOK })
		envoys = append(envoys, e)
	}
	one, two := envoys[0], envoys[1]
	one.want(one.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 2")
	two.want(textOf(two.peek(descriptor(free...))), "OK: OK free-day 3 per DAY left 2")
	two.want(two.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 1")
	one.want(one.said(descriptor(free...)), "OK: OK free-day 3 per DAY left 0")
	two.want(textOf(two.peek(descriptor(free...))), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0")
	two.want(two.said(descriptor(free...)), "OVER_LIMIT: OVER_LIMIT free-day 3 per DAY left 0")
	login := []string{"path", "/v1/login", "method", "POST", "user", "ada"}
	for left := 2; left > 0; left-- { // a log, and behind it a bucket
		two.want(textOf(two.peek(descriptor(login...))), fmt.Sprintf("OK: OK login-user 2 per HOUR left %d", left))
		one.want(one.said(descriptor(login...)), fmt.Sprintf("OK: OK login-user 2 per HOUR left %d", left-1))
	}
	two.want(textOf(two.peek(descriptor(login...))), "OVER_LIMIT: OVER_LIMIT login-user 2 per HOUR left 0")
	one.want(one.hits(20, descriptor(pro...)), "OK: OK pro-all 25 per 5 DAY left 5")
	two.want(textOf(two.peek(descriptor(pro...))), "OK: OK pro-all 25 per 5 DAY left 5")
}
