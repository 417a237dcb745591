package rulesource

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Watch adds how it stands with the rules service to the metrics of a service, as in
// "gateway": labelled by domain where domains are named, by nothing for the domain "".
// It does nothing for sources that are no service's.
func Watch(provider metric.MeterProvider, service string, domains map[string]*Source) error {
	labels := map[*Source]metric.MeasurementOption{}
	for domain, s := range domains {
		switch {
		case s.feed == nil:
		case domain == "":
			labels[s] = metric.WithAttributes()
		default:
			labels[s] = metric.WithAttributes(attribute.String("domain", domain))
		}
	}
	if len(labels) == 0 {
		return nil
	}
	instruments := provider.Meter("github.com/shiplane/limits/" + service)
	prefix := "shiplane_" + service + "_rules_"
	start := time.Now()
	age, err1 := instruments.Float64ObservableGauge(prefix+"silence_seconds",
		metric.WithDescription("How long ago the rules service said something; until it first does, how long this process runs."))
	faults, err2 := instruments.Int64ObservableGauge(prefix+"faults",
		metric.WithDescription("Rules, overrides and other items of the rules service that are not in force because they have faults."))
	watches, err3 := instruments.Int64ObservableCounter(prefix+"watches",
		metric.WithDescription("Watches of the rules service that came up: beyond the first each is a reconnection."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	_, err := instruments.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for s, label := range labels {
			status := s.feed.Status()
			heard := status.Heard
			if heard.IsZero() {
				heard = start
			}
			o.ObserveFloat64(age, time.Since(heard).Seconds(), label)
			o.ObserveInt64(faults, int64(len(status.Faults)), label)
			o.ObserveInt64(watches, status.Watches, label)
		}
		return nil
	}, age, faults, watches)
	return err
}
