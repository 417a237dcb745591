package checker

import (
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
}
