package checker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shiplane/limits/checker/internal/decide"
	"github.com/shiplane/limits/libs/ruleset/rulesource"
	"github.com/shiplane/limits/libs/serve"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// domains is the rules of each domain.
type domains map[string]*rulesource.Source

// openRules opens the rules of all domains, and follows them while the process runs.
// The error names all that is wrong.
func openRules(ctx context.Context, process *serve.Process, all []rulesource.Config, log *slog.Logger) (domains, error) {
	opened := domains{}
	var faults []error
	for _, cfg := range all {
		source, err := rulesource.Open(ctx, cfg, log)
		if err != nil {
			faults = append(faults, fmt.Errorf("--rules: %w", err))
			continue
		}
		domain := domainOf(cfg, source)
		if opened[domain] != nil {
			faults = append(faults, fmt.Errorf("--rules: %s has the domain %q, as another file has", cfg.String(), domain))
			continue
		}
		opened[domain] = source
		for name, follow := range source.Follow() {
			process.Go(name+" of "+domain, func(ctx context.Context) error { follow(ctx); return nil })
		}
	}
	return opened, errors.Join(faults...)
}

func domainOf(cfg rulesource.Config, source *rulesource.Source) string {
	if cfg.Service != nil {
		return cfg.Service.Domain
	}
	return source.Current().Domain()
}

// ready returns why some domain's requests cannot be decided, nil if all can.
func (d domains) ready() error {
	for domain, source := range d {
		if err := source.Ready(); err != nil {
			return fmt.Errorf("domain %s: %w", domain, err)
		}
	}
	return nil
}

// names returns the domains in order.
func (d domains) names() []string { return slices.Sorted(maps.Keys(d)) }

// sources returns the rules as the engine takes them.
func (d domains) sources() map[string]decide.Source {
	all := make(map[string]decide.Source, len(d))
	for domain, source := range d {
		all[domain] = source
	}
	return all
}

// watch adds how it stands with the rules to the metrics.
func (d domains) watch(provider metric.MeterProvider) error {
	_, err := provider.Meter("github.com/shiplane/limits/checker").Int64ObservableGauge("shiplane_checker_rules_revision",
		metric.WithDescription("Revision of the rules in force."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for domain, source := range d {
				n, _ := source.Figures()
				o.Observe(n, metric.WithAttributes(attribute.String("domain", domain)))
			}
			return nil
		}))
	return errors.Join(err, rulesource.Watch(provider, "checker", d))
}

// health answers for every service what /readyz says.
type health func() error

// Check implements grpchealth.Checker.
func (h health) Check(_ context.Context, q *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if q.Service != "" && q.Service != checkv1.CheckServiceName {
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no service %.100q", q.Service))
	}
	answer := &grpchealth.CheckResponse{Status: grpchealth.StatusServing}
	if h() != nil {
		answer.Status = grpchealth.StatusNotServing
	}
	return answer, nil
}
