package loadgen

import (
	"math/rand/v2"
	"strconv"
)

// pick chooses the number of the key that the next request is sent with.
type pick func() int

func newPick(cfg *Config, random *rand.Rand) pick {
	switch {
	case cfg.Keys == 1:
		return func() int { return 0 }
	case cfg.Distribution == "hot":
		return func() int {
			if random.Float64() < cfg.HotShare {
				return 0
			}
			return 1 + random.IntN(cfg.Keys-1)
		}
	case cfg.Distribution == "zipf":
		zipf := rand.NewZipf(random, cfg.Exponent, 1, uint64(cfg.Keys-1))
		return func() int { return int(zipf.Uint64()) }
	default:
		return func() int { return random.IntN(cfg.Keys) }
	}
}

// keyName is the key that is sent: the stream's own where it has but one.
func keyName(cfg *Config, key string, number int) string {
	if cfg.Keys == 1 {
		return key
	}
	return key + "-" + strconv.Itoa(number)
}
