package gateway

import (
	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
)

// ready returns why requests cannot be decided, nil if they can.
func (in *files) ready(mode edge.Mode) error {
	if mode != edge.Enforce {
		return nil
	}
	return in.rules.Ready()
}

// observer returns the limiter's Observer: the meter, and who counts for the rules
// service.
func (in *inputs) observer() limiter.Observer { return observer{in.meter, in.rules} }

type observer struct {
	*meter.Meter
	rules *rulesource.Source
}

// Shadow implements limiter.Observer.
func (o observer) Shadow(rule *limit.Rule, requests, short int64) {
	o.Meter.Shadow(rule, requests, short)
	o.rules.Shadow(rule, requests, short)
}
