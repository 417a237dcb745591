package feed

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// One delay cannot make the clock slow for long, and none makes it fast.
func TestClockTakesTheSampleOfLeastDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		const ahead = time.Hour
		for i := range 50 {
			sent := time.Now().Add(ahead)
			time.Sleep(rand.N(time.Second))
			if i%5 == 0 {
				sent = time.Now().Add(ahead) // came at once
			}
			c.add(sent, time.Now())
			if late := time.Now().Add(ahead).Sub(c.now()); late != 0 {
				t.Fatalf("after %d messages the clock is %v late", i+1, late)
			}
			time.Sleep(5 * time.Second)
		}
		c.forget()
		c.add(time.Now(), time.Now())
		if off := time.Until(c.now()); off != 0 {
			t.Errorf("after another service was heard the clock is off by %v", off)
		}
	})
}
