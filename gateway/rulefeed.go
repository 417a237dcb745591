package gateway

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/gateway/internal/edge"
	"github.com/shiplane/limits/gateway/internal/meter"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/limiter"
	"github.com/shiplane/limits/libs/ruleset/feed"
)

// now is the time by which overrides start and end.
func (in *files) now() time.Time {
	if in.feed != nil {
		return in.feed.Now()
	}
	return time.Now()
}

// ready returns why requests cannot be decided, nil if they can.
func (in *files) ready(mode edge.Mode) error {
	if in.feed == nil || mode != edge.Enforce {
		return nil
	}
	return in.feed.Ready()
}

// figures are the revision and the number of the rules in force, 0 for none.
func (in *files) figures() (revision int64, rules int) {
	current := in.rules.Current()
	if current == nil {
		return 0, 0
	}
	return current.Revision(), len(current.Rules())
}

// decided returns who is told of decisions, for the rules service; nil without one.
func (in *files) decided() func(*limit.Decision) {
	if in.feed == nil {
		return nil
	}
	return in.feed.Tally().Count
}

// observer returns the limiter's Observer: the meter, and who counts for the rules
// service.
func (in *inputs) observer() limiter.Observer {
	if in.feed == nil {
		return in.meter
	}
	return observer{in.meter, in.feed.Tally()}
}

type observer struct {
	*meter.Meter
	tally *feed.Tally
}

// Shadow implements limiter.Observer.
func (o observer) Shadow(rule *limit.Rule, requests, short int64) {
	o.Meter.Shadow(rule, requests, short)
	o.tally.Shadow(rule, requests, short)
}

// watchFeed adds how it stands with the rules service to the metrics. It does nothing
// without one.
func watchFeed(provider metric.MeterProvider, rules *feed.Feed) error {
	if rules == nil {
		return nil
	}
	instruments := provider.Meter("github.com/shiplane/limits/gateway")
	start := time.Now()
	age, err1 := instruments.Float64ObservableGauge("shiplane_gateway_rules_silence_seconds",
		metric.WithDescription("How long ago the rules service said something; until it first does, how long this gateway runs."))
	faults, err2 := instruments.Int64ObservableGauge("shiplane_gateway_rules_faults",
		metric.WithDescription("Rules, overrides and other items of the rules service that are not in force because they have faults."))
	watches, err3 := instruments.Int64ObservableCounter("shiplane_gateway_rules_watches",
		metric.WithDescription("Watches of the rules service that came up: beyond the first each is a reconnection."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	_, err := instruments.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := rules.Status()
		heard := s.Heard
		if heard.IsZero() {
			heard = start
		}
		o.ObserveFloat64(age, time.Since(heard).Seconds())
		o.ObserveInt64(faults, int64(len(s.Faults)))
		o.ObserveInt64(watches, s.Watches)
		return nil
	}, age, faults, watches)
	return err
}
