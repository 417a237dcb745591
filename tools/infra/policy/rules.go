package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Types that rules are about.
const (
	cluster       = "aws_elasticache_replication_group"
	clusterParams = "aws_elasticache_parameter_group"
	clusterUser   = "aws_elasticache_user"
	database      = "aws_db_instance"
	databaseParam = "aws_db_parameter_group"
	alarm         = "aws_cloudwatch_metric_alarm"
	logGroup      = "aws_cloudwatch_log_group"
	ingress       = "aws_vpc_security_group_ingress_rule"
	egress        = "aws_vpc_security_group_egress_rule"
	subnet        = "aws_subnet"
)

// window is a weekly one, in UTC.
const window = `[a-z]{3}:\d\d:\d\d-[a-z]{3}:\d\d:\d\d`

// Rules are all that must hold of a region.
func Rules() []Rule {
	return slices.Concat(counterRules(), ruleStoreRules(), networkRules(), secretRules(), alarmRules())
}

func counterRules() []Rule {
	return []Rule{
		count(cluster, 1),
		oneOf(cluster, "engine", "valkey", "redis"),
		matches(cluster, "engine_version", `8\.[0-9]|7\.1`),
		matches(cluster, "node_type", `cache\.([mr][67]g|c7gn)\.(large|\d*xlarge)`),
		oneOf(cluster, "num_node_groups", "16"),
		matches(cluster, "replicas_per_node_group", "[1-5]"),
		oneOf(cluster, "cluster_mode", "enabled"),
		oneOf(cluster, "automatic_failover_enabled", "true"),
		oneOf(cluster, "multi_az_enabled", "true"),
		oneOf(cluster, "snapshot_retention_limit", "0"),
		oneOf(cluster, "at_rest_encryption_enabled", "true"),
		given(cluster, "kms_key_id"),
		oneOf(cluster, "transit_encryption_enabled", "true"),
		oneOf(cluster, "transit_encryption_mode", "required"),
		given(cluster, "user_group_ids"),
		given(cluster, "notification_topic_arn"),
		matches(cluster, "maintenance_window", window),
		each(cluster+".log_delivery_configuration", cluster, slowLogOnly),
		exclusive(cluster, "num_node_groups", "num_cache_clusters"),
		without(cluster, "auth_token", "snapshot_arns", "snapshot_name"),
		oneOf(clusterParams, "family", "valkey8", "redis7"),
		parameters(clusterParams, clusterParameters(),
			"cluster-enabled", "cluster-require-full-coverage", "maxmemory-policy"),
		oneOf(clusterUser, "engine", "valkey", "redis"),
		exclusive(clusterUser, "passwords_wo_version", "authentication_mode", "no_password_required"),
		each(clusterUser+".access_string", clusterUser, narrowAccess),
	}
}

// clusterParameters are parameters that ElastiCache lets us set, by the values that
// they may have here.
func clusterParameters() map[string]string {
	return map[string]string{
		"cluster-enabled":               "yes",
		"cluster-require-full-coverage": "no",
		"maxmemory-policy":              "volatile-lfu",
		"reserved-memory-percent":       `[1-9]\d?`,
		"timeout":                       "0",
		"tcp-keepalive":                 `[1-9]\d{0,3}`,
		"slowlog-log-slower-than":       `[1-9]\d{2,6}`,
		"slowlog-max-len":               `[1-9]\d{0,4}`,
		"lfu-decay-time":                `\d{1,4}`,
		"lfu-log-factor":                `\d{1,4}`,
	}
}

func slowLogOnly(r Resource) string {
	var kinds []string
	for _, block := range r.blocks("log_delivery_configuration") {
		kind := text(block["log_type"])
		kinds = append(kinds, kind)
		if !slices.Contains([]string{"slow-log", "engine-log"}, kind) {
			return fmt.Sprintf("log_type is %q, want slow-log or engine-log", kind)
		}
		if got := text(block["destination_type"]); got != "cloudwatch-logs" {
			return fmt.Sprintf("destination_type is %q, want cloudwatch-logs", got)
		}
		if got := text(block["log_format"]); got != "json" {
			return fmt.Sprintf("log_format is %q, want json", got)
		}
	}
	if !slices.Contains(kinds, "slow-log") {
		return "the slow log goes nowhere"
	}
	return ""
}

// narrowAccess: the default user is off, and nobody may see other keys or do
// what is dangerous.
func narrowAccess(r Resource) string {
	words := strings.Fields(r.text("access_string"))
	if r.text("user_name") == "default" {
		if len(words) == 0 || words[0] != "off" {
			return "the default user is not off"
		}
		return ""
	}
	for _, word := range words {
		if strings.HasPrefix(word, "~") && !strings.HasPrefix(word, "~rl:") || slices.Contains([]string{"allkeys", "allcommands", "nopass", "+@all", "+@dangerous", "+@admin"}, word) {
			return fmt.Sprintf("access_string allows %s", word)
		}
	}
	if !slices.Contains(words, "-@dangerous") {
		return "access_string lacks -@dangerous"
	}
	return ""
}

func ruleStoreRules() []Rule {
	return []Rule{
		count(database, 1),
		each(database+".engine", database, func(r Resource) string {
			if got := r.text("engine"); !r.set("replicate_source_db") && got != "postgres" {
				return fmt.Sprintf("engine is %q, want postgres", got)
			}
			return ""
		}),
		matches(database, "instance_class", `db\.(t4g\.(medium|large|2?xlarge)|[mr][67]g\.(large|\d*xlarge))`),
		oneOf(database, "storage_type", "gp3"),
		oneOf(database, "storage_encrypted", "true"),
		given(database, "kms_key_id"),
		oneOf(database, "publicly_accessible", "false"),
		oneOf(database, "deletion_protection", "true"),
		oneOf(database, "performance_insights_enabled", "true"),
		oneOf(database, "ca_cert_identifier", "rds-ca-rsa2048-g1", "rds-ca-rsa4096-g1", "rds-ca-ecc384-g1"),
		members(database, "enabled_cloudwatch_logs_exports", "postgresql", "upgrade"),
		matches(database, "backup_retention_period", `[1-9]|[12]\d|3[0-5]`),
		matches(database, "maintenance_window", window),
		each("the home database", database, homeDatabase),
		exclusive(database, "password", "password_wo_version", "manage_master_user_password"),
		each("a replica", database, replica),
		exclusive(database, "identifier", "identifier_prefix"),
		oneOf(databaseParam, "family", "postgres17"),
		parameters(databaseParam, map[string]string{
			"rds.force_ssl":                       "1",
			"log_min_duration_statement":          `[1-9]\d{1,5}`,
			"log_lock_waits":                      "1",
			"idle_in_transaction_session_timeout": `[1-9]\d{3,6}`,
		}, "rds.force_ssl"),
		exclusive(databaseParam, "name", "name_prefix"),
	}
}

// homeDatabase: the instance that is written stands in two zones, and leaves a
// snapshot when it goes.
func homeDatabase(r Resource) string {
	switch {
	case r.set("replicate_source_db"):
		return ""
	case r.text("multi_az") != "true":
		return "multi_az is not true"
	case r.text("skip_final_snapshot") != "false" || !r.set("final_snapshot_identifier"):
		return "leaves no final snapshot"
	case !r.set("password_wo_version"):
		return "has no password that stays out of the state"
	}
	return ""
}

// replica: a replica has what its source has, and RDS refuses or ignores what else it is
// told; it leaves no snapshot, for none can be taken of it when it goes.
func replica(r Resource) string {
	if !r.set("replicate_source_db") {
		return ""
	}
	for _, attribute := range []string{"engine", "engine_version", "db_name", "username", "password_wo_version", "allocated_storage", "final_snapshot_identifier"} {
		if r.Values[attribute] != nil {
			return attribute + " is set, which is its source's"
		}
	}
	if r.text("skip_final_snapshot") != "true" {
		return "skip_final_snapshot is not true"
	}
	return ""
}

func networkRules() []Rule {
	return []Rule{
		absent("nothing public", "aws_internet_gateway", "aws_eip", "aws_nat_gateway", "aws_lb", "aws_instance"),
		oneOf(subnet, "map_public_ip_on_launch", "false"),
		{"two zones at least", func(p Plan) []string {
			zones := map[string]bool{}
			for _, r := range p.of(subnet) {
				zones[r.text("availability_zone")] = true
			}
			if len(zones) < 2 {
				return []string{fmt.Sprintf("subnets in %d zones", len(zones))}
			}
			return nil
		}},
		each(ingress+" from security groups", ingress, fromGroup),
		oneOf(ingress, "ip_protocol", "tcp"),
		matches(ingress, "from_port", "6379|5432"),
		matches(ingress, "to_port", "6379|5432"),
		each(egress+" to security groups", egress, fromGroup),
		without("aws_security_group", "ingress", "egress"),
		without("aws_default_security_group", "ingress", "egress"),
		without("aws_route_table", "route"),
		oneOf("aws_flow_log", "traffic_type", "REJECT", "ALL"),
	}
}

func fromGroup(r Resource) string {
	for _, open := range []string{"cidr_ipv4", "cidr_ipv6", "prefix_list_id"} {
		if r.set(open) {
			return open + " is set, want referenced_security_group_id alone"
		}
	}
	if !r.set("referenced_security_group_id") {
		return "referenced_security_group_id is not set"
	}
	return ""
}

// secretRules: no secret is in a plan, and so in no state.
func secretRules() []Rule {
	return []Rule{
		without(database, "password"),
		without(clusterUser, "passwords"),
		without("aws_secretsmanager_secret_version", "secret_string", "secret_binary"),
		given("aws_secretsmanager_secret_version", "secret_string_wo_version"),
		given("aws_secretsmanager_secret", "kms_key_id"),
		exclusive("aws_secretsmanager_secret", "name", "name_prefix"),
		oneOf("aws_kms_key", "enable_key_rotation", "true"),
		matches("aws_kms_key", "deletion_window_in_days", `[7-9]|[12]\d|30`),
	}
}
