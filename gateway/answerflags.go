package gateway

import (
	"net/url"
	"slices"
	"strings"

	"github.com/shiplane/limits/gateway/internal/edge"
)

// answerFlags say what callers see, and what costs them. They are embedded in
// flags, as text.
type answerFlags struct {
	XRatelimitHeaders bool   `help:"Also send X-RateLimit-Limit, -Remaining and -Reset (seconds)."`
	Charge            string `placeholder:"LIST" help:"Requests to charge that are free otherwise, of head, options and preflight (default none)."`
	CORSOrigins       string `name:"cors-origins" placeholder:"ORIGIN,..." help:"Origins whose scripts may read the gateway's own answers, as https://shop.example, or * for all without credentials (default none; the upstream's answers are its own to open)."`
	DeniedBody        string `placeholder:"FILE" help:"Template of the body of 429 answers, read once (default: problem+json)."`
	DeniedBodyType    string `default:"application/json" placeholder:"TYPE" help:"Content-Type of --denied-body; text/html is escaped as such (default application/json)."`
}

func (f *answerFlags) read(cfg *Config, fault faultFunc) {
	cfg.Legacy = f.XRatelimitHeaders
	cfg.DeniedBody, cfg.DeniedBodyType = f.DeniedBody, f.DeniedBodyType
	cfg.Charge = edge.Charge{}
	for what := range listed(f.Charge) {
		switch strings.ToLower(what) {
		case "head":
			cfg.Charge.Head = true
		case "options":
			cfg.Charge.Options = true
		case "preflight":
			cfg.Charge.Preflight = true
		default:
			fault("charge", what, "want head, options or preflight")
		}
	}
	for origin := range listed(f.CORSOrigins) {
		if u, err := url.Parse(origin); origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host || strings.Contains(origin, "*")) {
			fault("cors-origins", origin, "want SCHEME://HOST[:PORT] without a path, as in https://shop.example, or *")
		}
		cfg.Origins = append(cfg.Origins, origin)
	}
	if len(cfg.Origins) > 1 && slices.Contains(cfg.Origins, "*") {
		fault("cors-origins", f.CORSOrigins, "want * alone, or origins by name")
	}
}
