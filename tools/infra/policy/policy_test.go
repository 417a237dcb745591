package policy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plansVariable names a folder with plans in JSON; make verify-infra sets it.
const plansVariable = "SHIPLANE_INFRA_PLANS"

// A plan of each region is against no rule, and neither is a region in small.
func TestPlansHold(t *testing.T) {
	for name, plan := range plans(t) {
		for _, v := range Check(plan) {
			t.Errorf("%s: %s: %s", name, v.Rule, v.What)
		}
	}
}

// Every rule finds what is planted against it, in the plan of each region.
func TestEveryRuleFindsItsViolation(t *testing.T) {
	planted := map[string]bool{}
	for name, plan := range plans(t) {
		for _, p := range plantings() {
			planted[p.rule] = true
			violated := plan.clone()
			p.plant(&violated)
			found := Check(violated)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == p.rule }) {
				t.Errorf("%s: a violation of %q is not found; found %v", name, p.rule, found)
			}
		}
	}
	seen := map[string]bool{}
	for _, rule := range Rules() {
		if !planted[rule.Name] {
			t.Errorf("nothing is planted against %q", rule.Name)
		}
		if seen[rule.Name] {
			t.Errorf("two rules are called %q", rule.Name)
		}
		seen[rule.Name] = true
	}
}

// What is known after the apply only counts as set; what goes is not looked at; and
// what is no plan is said to be none.
func TestParse(t *testing.T) {
	plan, err := Parse([]byte(`{"resource_changes":[
		{"address":"a","type":"aws_kms_key","change":{"after":{"policy":null},"after_unknown":{"arn":true,"tags":{}}}},
		{"address":"b","type":"aws_kms_key","change":{"after":null,"after_unknown":false}}]}`))
	if err != nil || len(plan.Resources) != 1 {
		t.Fatalf("got %+v, %v", plan, err)
	}
	if r := plan.Resources[0]; !r.set("arn") || r.set("policy") || r.set("tags") {
		t.Errorf("arn is set: %v, policy: %v, tags: %v", r.set("arn"), r.set("policy"), r.set("tags"))
	}
	if _, err := Parse([]byte("Error: no plan")); err == nil {
		t.Error("no error")
	}
}

func plans(t *testing.T) map[string]Plan {
	t.Helper()
	all := map[string]Plan{"in small": region()}
	folder := os.Getenv(plansVariable)
	if folder == "" {
		return all
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no plan in %s: %v", folder, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = plan
	}
	return all
}

// planting brings a violation of a rule into a plan.
type planting struct {
	rule  string
	plant func(*Plan)
}

func plantings() []planting {
	var all []planting
	// A value that is wrong: the rule is called by type and attribute.
	wrong := func(kind, attribute string, values ...any) {
		for _, value := range values {
			all = append(all, planting{kind + "." + attribute, func(p *Plan) { p.first(kind).put(attribute, value) }})
		}
	}
	with := func(rule, kind, attribute string, value any) {
		all = append(all, planting{rule, func(p *Plan) { p.first(kind).put(attribute, value) }})
	}
	any1 := []any{map[string]any{}}

	for kind, bad := range map[string]map[string][]any{
		cluster: {
			"engine": {"valky", nil}, "engine_version": {"6.2"}, "node_type": {"cache.m7.large", "cache.t4g.medium"}, "num_node_groups": {15.0, nil},
			"replicas_per_node_group": {0.0}, "cluster_mode": {"disabled"}, "automatic_failover_enabled": {false}, "multi_az_enabled": {false},
			"snapshot_retention_limit": {1.0}, "at_rest_encryption_enabled": {"false", nil}, "kms_key_id": {nil}, "transit_encryption_enabled": {false},
			"transit_encryption_mode": {"preferred"}, "user_group_ids": {nil}, "notification_topic_arn": {nil}, "maintenance_window": {"04:00-05:00"},
			"log_delivery_configuration": {
				nil, logs("slow-logs", "cloudwatch-logs", "json"), logs("engine-log", "cloudwatch-logs", "json"), logs("slow-log", "s3", "json"), logs("slow-log", "cloudwatch-logs", "xml"),
			},
		},
		clusterParams: {
			"family": {"redis7.1"},
			"parameter": {
				nil, parameterList("cluster-node-timeout", "15000"), parameterList("maxmemory-polcy", "volatile-lfu"),
				parameterList("maxmemory-policy", "allkeys-lfu"), parameterList("cluster-require-full-coverage", "yes"),
			},
		},
		clusterUser: {
			"engine":        {"VALKEY"},
			"access_string": {"on ~* +@all", "on ~rl:* +@all -@dangerous", "on ~rl:* +@read"},
		},
		database: {
			"instance_class": {"db.t3.nano"}, "storage_type": {"standard"}, "storage_encrypted": {false}, "kms_key_id": {nil}, "publicly_accessible": {true},
			"deletion_protection": {false, nil}, "performance_insights_enabled": {false}, "ca_cert_identifier": {"rds-ca-2019"},
			"enabled_cloudwatch_logs_exports": {[]any{"postgres"}, []any{}}, "backup_retention_period": {0.0, 36.0}, "maintenance_window": {"daily"},
		},
		databaseParam: {
			"family":    {"postgres9"},
			"parameter": {nil, parameterList("rds.force_ssl", "0"), parameterList("rds.force_tls", "1")},
		},
		subnet:  {"map_public_ip_on_launch": {true}},
		ingress: {"ip_protocol": {"-1"}, "from_port": {0.0}, "to_port": {65535.0}},
		alarm: {
			"metric_name": {"EvictionsTotal"}, "comparison_operator": {"Above"}, "statistic": {"Mean"}, "treat_missing_data": {"notbreaching"},
			"dimensions": {nil, map[string]any{"CacheClusterID": "r-0001-001", "CacheNodeId": "0001"}},
		},
		logGroup:                            {"retention_in_days": {nil, 0.0}},
		"aws_flow_log":                      {"traffic_type": {"DENY"}},
		"aws_secretsmanager_secret_version": {"secret_string_wo_version": {nil}},
		"aws_secretsmanager_secret":         {"kms_key_id": {nil}},
		"aws_kms_key":                       {"enable_key_rotation": {false}, "deletion_window_in_days": {6.0, 31.0}},
	} {
		for attribute, values := range bad {
			wrong(kind, attribute, values...)
		}
	}

	with(cluster+" not both num_node_groups, num_cache_clusters", cluster, "num_cache_clusters", 2.0)
	with(cluster+" without auth_token, snapshot_arns, snapshot_name", cluster, "auth_token", "secret")
	with(clusterUser+" without passwords", clusterUser, "passwords", []any{"secret"})
	with(database+" without password", database, "password", "secret")
	with(database+" not both identifier, identifier_prefix", database, "identifier_prefix", "rules-")
	with(databaseParam+" not both name, name_prefix", databaseParam, "name_prefix", "rules-")
	with("aws_secretsmanager_secret_version without secret_string, secret_binary", "aws_secretsmanager_secret_version", "secret_string", "secret")
	with("aws_security_group without ingress, egress", "aws_security_group", "ingress", any1)
	with("aws_default_security_group without ingress, egress", "aws_default_security_group", "egress", any1)
	with("aws_route_table without route", "aws_route_table", "route", any1)
	with(ingress+" from security groups", ingress, "cidr_ipv4", "0.0.0.0/0")
	with(ingress+" from security groups", ingress, "referenced_security_group_id", nil)
	with(egress+" to security groups", egress, "cidr_ipv6", "::/0")
	with(alarm+" is heard", alarm, "alarm_actions", []any{})
	with(alarm+" is heard", alarm, "actions_enabled", false)
	with(alarm+" not both statistic, extended_statistic", alarm, "extended_statistic", "p99")

	// A replica that is sound but for one attribute.
	for attribute, value := range map[string]any{
		"engine": "postgres", "engine_version": "17", "db_name": "rules", "username": "me", "password_wo_version": 1.0, "allocated_storage": 20.0,
		"final_snapshot_identifier": "f", "skip_final_snapshot": false,
	} {
		all = append(all, planting{"a replica", func(p *Plan) {
			r := p.first(database)
			for _, its := range []string{"engine", "engine_version", "db_name", "username", "password_wo_version", "allocated_storage", "final_snapshot_identifier"} {
				r.put(its, nil)
			}
			r.put("replicate_source_db", "arn")
			r.put("skip_final_snapshot", true)
			r.put(attribute, value)
		}})
	}

	for rule, plant := range map[string]func(*Plan){
		"one region's " + cluster:  func(p *Plan) { p.drop(cluster) },
		"one region's " + database: func(p *Plan) { p.Resources = append(p.Resources, *p.first(database)) },
		"nothing public":           func(p *Plan) { p.first("aws_internet_gateway") },
		"two zones at least": func(p *Plan) {
			for i := range p.Resources {
				p.Resources[i].Values["availability_zone"] = "us-east-1a"
			}
		},
		"every node is watched": func(p *Plan) {
			p.Resources = slices.DeleteFunc(p.Resources, func(r Resource) bool { return r.text("metric_name") == "ReplicationLag" })
		},
		database + ".engine": func(p *Plan) {
			p.first(database).put("replicate_source_db", nil)
			p.first(database).put("engine", "postgre")
		},
		"the home database": func(p *Plan) {
			p.first(database).put("replicate_source_db", nil)
			p.first(database).put("multi_az", false)
		},
		database + " not both password, password_wo_version, manage_master_user_password": func(p *Plan) {
			p.first(database).put("password_wo_version", 1.0)
			p.first(database).put("manage_master_user_password", true)
		},
		clusterUser + " not both passwords_wo_version, authentication_mode, no_password_required": func(p *Plan) {
			p.first(clusterUser).put("passwords_wo_version", 1.0)
			p.first(clusterUser).put("authentication_mode", []any{map[string]any{"type": "iam"}})
		},
		"aws_secretsmanager_secret not both name, name_prefix": func(p *Plan) {
			p.first("aws_secretsmanager_secret").put("name", "a")
			p.first("aws_secretsmanager_secret").put("name_prefix", "b")
		},
		alarm + " not both metric_name, metric_query": func(p *Plan) {
			p.first(alarm).put("metric_name", "Evictions")
			p.first(alarm).put("metric_query", []any{map[string]any{"id": "a"}})
		},
	} {
		all = append(all, planting{rule, plant})
	}
	return all
}

func logs(kind, to, format string) []any {
	return []any{map[string]any{"log_type": kind, "destination_type": to, "log_format": format}}
}

func parameterList(pairs ...string) []any {
	var list []any
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, map[string]any{"name": pair[0], "value": pair[1]})
	}
	return list
}

// first returns the first resource of a type, or adds one.
func (p *Plan) first(kind string) *Resource {
	for i := range p.Resources {
		if p.Resources[i].Type == kind {
			return &p.Resources[i]
		}
	}
	p.Resources = append(p.Resources, Resource{kind + ".planted", kind, map[string]any{}, map[string]any{}})
	return &p.Resources[len(p.Resources)-1]
}

func (p *Plan) drop(kind string) {
	p.Resources = slices.DeleteFunc(p.Resources, func(r Resource) bool { return r.Type == kind })
}

// put sets an attribute that is known then, or unsets it.
func (r *Resource) put(attribute string, value any) {
	delete(r.unknown, attribute)
	r.Values[attribute] = value
}

// clone copies resources and their attributes; plantings change nothing deeper.
func (p Plan) clone() Plan {
	copied := Plan{slices.Clone(p.Resources)}
	for i, r := range copied.Resources {
		copied.Resources[i].Values, copied.Resources[i].unknown = maps.Clone(r.Values), maps.Clone(r.unknown)
	}
	return copied
}

// region is a home region in small: what the rules ask for, and nothing else.
func region() Plan {
	var p Plan
	add := func(kind string, values map[string]any) {
		p.Resources = append(p.Resources, Resource{fmt.Sprintf("%s.r%d", kind, len(p.Resources)), kind, values, map[string]any{}})
	}
	add(cluster, map[string]any{
		"replication_group_id": "r", "engine": "valkey", "engine_version": "8.1", "node_type": "cache.m7g.large", "num_node_groups": 16.0, "replicas_per_node_group": 1.0,
		"cluster_mode": "enabled", "automatic_failover_enabled": true, "multi_az_enabled": true, "snapshot_retention_limit": 0.0,
		"at_rest_encryption_enabled": "true", "kms_key_id": "k", "transit_encryption_enabled": true, "transit_encryption_mode": "required",
		"user_group_ids": []any{"u"}, "notification_topic_arn": "t", "maintenance_window": "sun:04:00-sun:05:00",
		"log_delivery_configuration": logs("slow-log", "cloudwatch-logs", "json"),
	})
	add(clusterParams, map[string]any{
		"family":    "valkey8",
		"parameter": parameterList("cluster-enabled", "yes", "cluster-require-full-coverage", "no", "maxmemory-policy", "volatile-lfu"),
	})
	// A user that is not the default one comes first: plantings are about it.
	add(clusterUser, map[string]any{"engine": "valkey", "user_name": "limiter", "access_string": "on ~rl:* -@all +@read -@dangerous", "authentication_mode": []any{map[string]any{"type": "iam"}}})
	add(clusterUser, map[string]any{"engine": "valkey", "user_name": "default", "access_string": "off -@all", "passwords_wo_version": 1.0})
	add(database, map[string]any{
		"identifier": "r", "engine": "postgres", "instance_class": "db.t4g.medium", "multi_az": true, "storage_type": "gp3", "storage_encrypted": true, "kms_key_id": "k",
		"publicly_accessible": false, "deletion_protection": true, "performance_insights_enabled": true, "ca_cert_identifier": "rds-ca-rsa2048-g1",
		"enabled_cloudwatch_logs_exports": []any{"postgresql"}, "backup_retention_period": 14.0, "maintenance_window": "sun:04:00-sun:05:00",
		"skip_final_snapshot": false, "final_snapshot_identifier": "f", "username": "u", "password_wo_version": 1.0,
	})
	add(databaseParam, map[string]any{"family": "postgres17", "name": "n", "parameter": parameterList("rds.force_ssl", "1")})
	for _, zone := range strings.Split("a b", " ") {
		add(subnet, map[string]any{"availability_zone": zone, "map_public_ip_on_launch": false})
	}
	for shard := range 16 {
		for node := range 2 {
			for _, metric := range metrics()["AWS/ElastiCache"] {
				add(alarm, map[string]any{
					"namespace": "AWS/ElastiCache", "metric_name": metric, "statistic": "Sum", "comparison_operator": "GreaterThanThreshold", "treat_missing_data": "notBreaching",
					"dimensions": map[string]any{"CacheClusterId": fmt.Sprintf("r-%04d-%03d", shard+1, node+1), "CacheNodeId": "0001"}, "alarm_actions": []any{"t"},
				})
			}
		}
	}
	return p
}
