package policy

import (
	"fmt"
	"maps"
	"slices"
)

// alarmRules: an alarm on a metric that does not exist never rings, and AWS takes it.
func alarmRules() []Rule {
	return []Rule{
		each(alarm+".metric_name", alarm, knownMetric),
		each(alarm+".dimensions", alarm, knownDimensions),
		oneOf(alarm, "comparison_operator", "GreaterThanThreshold", "GreaterThanOrEqualToThreshold", "LessThanThreshold", "LessThanOrEqualToThreshold"),
		oneOf(alarm, "statistic", "", "Average", "Maximum", "Minimum", "Sum", "SampleCount"),
		oneOf(alarm, "treat_missing_data", "missing", "notBreaching", "breaching", "ignore"),
		exclusive(alarm, "metric_name", "metric_query"),
		exclusive(alarm, "statistic", "extended_statistic"),
		each(alarm+" is heard", alarm, func(r Resource) string {
			if len(r.list("alarm_actions")) == 0 || r.text("actions_enabled") == "false" {
				return "tells nobody"
			}
			return ""
		}),
		{"every node is watched", nodesWatched},
		matches(logGroup, "retention_in_days", `[1-9]\d*`),
	}
}

// metrics by namespace, as AWS writes them.
func metrics() map[string][]string {
	return map[string][]string{
		"AWS/ElastiCache": {
			"EngineCPUUtilization", "DatabaseMemoryUsagePercentage", "Evictions", "ReplicationLag", "CurrConnections", "IsMaster",
		},
		"AWS/RDS": {
			"CPUUtilization", "FreeStorageSpace", "FreeableMemory", "DatabaseConnections", "ReplicaLag", "OldestReplicationSlotLag",
		},
	}
}

// asked returns what an alarm asks for: its own metric, or those of its queries.
func asked(r Resource) []map[string]any {
	asked := []map[string]any{r.Values}
	for _, query := range r.blocks("metric_query") {
		parts, _ := query["metric"].([]any)
		for _, part := range parts {
			if metric, ok := part.(map[string]any); ok {
				asked = append(asked, metric)
			}
		}
	}
	if len(r.blocks("metric_query")) > 0 {
		asked = asked[1:] // the alarm itself names none
	}
	return asked
}

func knownMetric(r Resource) string {
	for _, metric := range asked(r) {
		space, name := text(metric["namespace"]), text(metric["metric_name"])
		if !slices.Contains(metrics()[space], name) {
			return fmt.Sprintf("metric %q of %q is none that is known", name, space)
		}
	}
	return ""
}

// knownDimensions: a metric is found by all of its dimensions, and by no other.
func knownDimensions(r Resource) string {
	want := map[string][]string{"AWS/ElastiCache": {"CacheClusterId", "CacheNodeId"}, "AWS/RDS": {"DBInstanceIdentifier"}}
	for _, metric := range asked(r) {
		dimensions, _ := metric["dimensions"].(map[string]any)
		space := text(metric["namespace"])
		if got := slices.Sorted(maps.Keys(dimensions)); !slices.Equal(got, want[space]) {
			return fmt.Sprintf("dimensions of %q are %v, want %v", space, got, want[space])
		}
	}
	return ""
}

// nodesWatched: every metric of a node has an alarm, for every node that is planned.
func nodesWatched(p Plan) []string {
	type eye struct{ metric, node string }
	watched := map[eye]bool{}
	for _, r := range p.of(alarm) {
		for _, metric := range asked(r) {
			dimensions, _ := metric["dimensions"].(map[string]any)
			watched[eye{text(metric["metric_name"]), text(dimensions["CacheClusterId"])}] = true
		}
	}
	var found []string
	for _, r := range p.of(cluster) {
		shards, _ := r.Values["num_node_groups"].(float64)
		replicas, _ := r.Values["replicas_per_node_group"].(float64)
		for shard := 1; shard <= int(shards); shard++ {
			for node := 1; node <= int(replicas)+1; node++ {
				id := fmt.Sprintf("%s-%04d-%03d", r.text("replication_group_id"), shard, node)
				for _, metric := range metrics()["AWS/ElastiCache"] {
					if !watched[eye{metric, id}] {
						found = append(found, fmt.Sprintf("%s: nobody watches %s of %s", r.Address, metric, id))
					}
				}
			}
		}
	}
	return found
}
