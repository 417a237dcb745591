package stack

import (
	"context"
	"net/http"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrapeTimeout is what a service may take to tell its metrics.
const scrapeTimeout = time.Second

// breakerStates are the values of shiplane_store_breaker_state.
var breakerStates = [...]string{"closed", "open", "probing"}

// scrape adds what a service tells of itself; nothing if it does not answer.
func (s *Stack) scrape(ctx context.Context, p *PartStatus) {
	if p.Admin == "" || p.State != Running {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/metrics", http.NoBody)
	if err != nil {
		return
	}
	answer, err := s.scraper.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		return
	}
	p.read(families)
}

// read picks what status shows out of a service's metrics.
func (p *PartStatus) read(families map[string]*dto.MetricFamily) {
	for _, name := range []string{"shiplane_gateway_rules_revision", "shiplane_checker_rules_revision", "shiplane_rules_watch_revision"} {
		if found := families[name].GetMetric(); len(found) > 0 {
			revision := int64(found[0].GetGauge().GetValue())
			p.Revision = &revision
		}
	}
	if found := families["shiplane_store_region_pods"].GetMetric(); len(found) > 0 {
		pods := int64(found[0].GetGauge().GetValue())
		p.Pods = &pods
	}
	for _, breaker := range families["shiplane_store_breaker_state"].GetMetric() {
		state := int(breaker.GetGauge().GetValue())
		for _, label := range breaker.GetLabel() {
			if label.GetName() == "shard" && state >= 0 && state < len(breakerStates) {
				if p.Breakers == nil {
					p.Breakers = map[string]string{}
				}
				p.Breakers[strings.Clone(label.GetValue())] = breakerStates[state]
			}
		}
	}
}
