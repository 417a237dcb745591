package main

// Files that faults are planted in.
const (
	home        = "regions/us-east/main.tf"
	homeVars    = "regions/us-east/variables.tf"
	homeOutputs = "regions/us-east/outputs.tf"
	network     = "modules/network/main.tf"
	counters    = "modules/redis-cluster/main.tf"
	counterVars = "modules/redis-cluster/variables.tf"
	ruleStore   = "modules/rules-postgres/main.tf"
	ruleOutputs = "modules/rules-postgres/outputs.tf"
	alarms      = "modules/observability/main.tf"
)

// faults are all that are planted.
func faults() []fault {
	return append(append(schemaFaults(), beyondSchema()...), unsafeFaults()...)
}

// schemaFaults are against the schema of the provider, or Terraform's language.
func schemaFaults() []fault {
	const mode = "authentication_mode {\n    type = \"iam\"\n  }"
	return []fault{
		{"not formatted", network, "locals {", "locals   {", byFormat(), "modules/network/main.tf"},
		{"misspelt attribute", counters, "multi_az_enabled           = true", "multi_az_enable = true", byValidate(), "Unsupported argument"},
		{"misspelt block", counters, "authentication_mode {", "authentification_mode {", byValidate(), "Unsupported block type"},
		{"misspelt block of a log", counters, `dynamic "log_delivery_configuration"`, `dynamic "log_delivery_config"`, byValidate(), "Unsupported block type"},
		{"wrong type: text for a number", ruleStore, "deletion_window_in_days = 30", `deletion_window_in_days = "a month"`, byValidate(), "a number is required"},
		{"wrong type: number for a list", counters, "user_group_ids             = [aws_elasticache_user_group.this.user_group_id]", "user_group_ids = 1", byValidate(), "set of string required"},
		{"missing required attribute", counters, `access_string        = "off -@all"`, "", byValidate(), "Missing required argument"},
		{"missing required attribute of a block", counters, `      log_type         = log_delivery_configuration.key`, "", byValidate(), "Missing required argument"},
		{"unknown resource type", counters, `resource "aws_kms_alias"`, `resource "aws_kms_aliases"`, byValidate(), "Invalid resource type"},
		{"unknown ephemeral type", counters, `ephemeral "aws_secretsmanager_random_password" "nobody" {`, `ephemeral "aws_secretsmanager_password" "nobody" {`, byValidate(), "aws_secretsmanager_password"},
		{"block for an attribute", network, "tags                 = { Name = var.name }", "tags {\n    Name = var.name\n  }", byValidate(), "Unsupported block type"},
		{"attribute for a block", counters, mode, `authentication_mode = { type = "iam" }`, byValidate(), "Unsupported argument"},
		{"too many blocks", counters, mode, mode + "\n  " + mode, byValidate(), "Too many authentication_mode blocks"},
		{"computed attribute set", ruleStore, "enable_key_rotation     = true", "enable_key_rotation = true\n  arn = \"arn:aws:kms:x\"", byValidate(), "Value for unconfigurable attribute"},
		{"reference to an unknown resource", counters, "kms_key_id                 = aws_kms_key.this.arn", "kms_key_id = aws_kms_key.that.arn", byValidate(), "Reference to undeclared resource"},
		{"reference to an unknown attribute", counters, "kms_key_id                 = aws_kms_key.this.arn", "kms_key_id = aws_kms_key.this.arm", byValidate(), "Unsupported attribute"},
		{"reference to an unknown variable", home, "zones              = var.zones", "zones = var.zone", byValidate(), "Reference to undeclared input variable"},
		{"misspelt argument of a module", home, "node_type                 = var.counter_node_type", "node_typ = var.counter_node_type", byValidate(), "Unsupported argument"},
		{"missing argument of a module", home, "zones              = var.zones", "", byValidate(), "Missing required argument"},
		{"unknown output of a module", homeOutputs, "module.counters.store_url", "module.counters.store_uri", byValidate(), "Unsupported attribute"},
		{"secret in an output", ruleOutputs, "value       = aws_db_instance.this.identifier", "value = ephemeral.aws_secretsmanager_random_password.master.random_password", byValidate(), "phemeral"},
	}
}

// beyondSchema are faults that the schema allows and AWS, or the provider's code,
// would not.
func beyondSchema() []fault {
	return []fault{
		{"bad enum", counters, `transit_encryption_mode    = "required"`, `transit_encryption_mode = "require"`, byPolicy(), ".transit_encryption_mode"},
		{"bad enum of an alarm", alarms, `  treat_missing_data  = "missing"`, `  treat_missing_data  = "missed"`, byPolicy(), ".treat_missing_data"},
		{"bad enum of a log", counters, `toset(["slow-log", "engine-log"])`, `toset(["slow-log", "engine-logs"])`, byPolicy(), ".log_delivery_configuration"},
		{"bad enum of an export", ruleStore, `["postgresql", "upgrade"]`, `["postgresql", "upgrades"]`, byPolicy(), ".enabled_cloudwatch_logs_exports"},
		{"bad node type of a variable", homeVars, `"cache.m7g.large"`, `"cache.m7.large"`, byPlan(), `node_type is "cache.m7.large"`},
		{"bad node type past the variable", counters, "= var.node_type", `= "cache.m7.large"`, byPolicy(), ".node_type"},
		{"bad class of the database", homeVars, `"db.t4g.medium"`, `"db.t4g.medum"`, byPlan(), `instance_class is "db.t4g.medum"`},
		{"misspelt parameter", counters, `"maxmemory-policy" `, `"maxmemory-polcy" `, byPolicy(), `"maxmemory-polcy" is none`},
		{"parameter that AWS refuses", counters, `"timeout" `, "\"cluster-node-timeout\" = \"5000\"\n    \"timeout\" ", byPolicy(), `"cluster-node-timeout" is none, or cannot be set`},
		{"bad value of a parameter", counters, `"volatile-lfu"`, `"volatile-lfru"`, byPolicy(), "maxmemory-policy is"},
		{"misspelt parameter of the database", ruleStore, `"log_lock_waits" `, `"log_lock_wait" `, byPolicy(), `"log_lock_wait" is none`},
		{"attributes that exclude each other", counters, "num_node_groups            = var.shards", "num_node_groups = var.shards\n  num_cache_clusters = 2", byPolicy(), "num_node_groups and num_cache_clusters exclude each other"},
		{"password beside password_wo", ruleStore, `  db_name             =`, "  manage_master_user_password = true\n  db_name =", byPolicy(), "password_wo_version and manage_master_user_password exclude each other"},
		{"misspelt metric", alarms, `"EngineCPUUtilization"`, `"EngineCPUUtilisation"`, byPolicy(), `"EngineCPUUtilisation" of "AWS/ElastiCache" is none`},
		{"misspelt dimension", alarms, "dimensions          = { CacheClusterId =", "dimensions = { CacheClusterID =", byPolicy(), `dimensions of "AWS/ElastiCache" are`},
		{"failover of the first node alone", alarms, "for_each = each.value\n", "for_each = [each.value[0]]\n", byPolicy(), "nobody watches IsMaster of"},
		{"window that is no window", home, `"sun:08:00-sun:09:00"`, `"08:00-09:00"`, byPlan(), `maintenance_window is "08:00-09:00"`},
		{"validation that lets all through", counterVars, "var.shards >= 3", "var.shards >= 1", byTest(), "refuses_two_shards"},
	}
}

// unsafeFaults are valid, and would do harm.
func unsafeFaults() []fault {
	return []fault{
		{"fewer shards than sized", homeVars, "default     = 16", "default     = 8", byPolicy(), `num_node_groups is "8"`},
		{"full coverage", counters, `"cluster-require-full-coverage" = "no"`, `"cluster-require-full-coverage" = "yes"`, byPolicy(), "cluster-require-full-coverage is"},
		{"merchants evicted", counters, `"volatile-lfu"`, `"allkeys-lfu"`, byPolicy(), "maxmemory-policy is"},
		{"snapshots of counters", counters, "snapshot_retention_limit   = 0", "snapshot_retention_limit = 1", byPolicy(), ".snapshot_retention_limit"},
		{"no encryption on the way", counters, "transit_encryption_enabled = true", "transit_encryption_enabled = false", byPolicy(), ".transit_encryption_enabled"},
		{"no encryption at rest", ruleStore, "storage_encrypted     = true", "storage_encrypted = false", byPolicy(), ".storage_encrypted"},
		{"TLS not forced", ruleStore, `"rds.force_ssl"                       = "1"`, `"rds.force_ssl" = "0"`, byPolicy(), "rds.force_ssl is"},
		{"public database", ruleStore, "publicly_accessible                 = false", "publicly_accessible = true", byPolicy(), ".publicly_accessible"},
		{"open to the world", counters, "security_group_id            = aws_security_group.this.id\n  referenced_security_group_id = each.value", "security_group_id = aws_security_group.this.id\n  cidr_ipv4 = \"0.0.0.0/0\"", byPolicy(), "cidr_ipv4 is set"},
		{"default user on", counters, `"off -@all"`, `"on ~* +@all"`, byPolicy(), "the default user is not off"},
		{"no deletion protection", ruleStore, "deletion_protection       = true", "deletion_protection = false", byPolicy(), ".deletion_protection"},
		{"secret in the state", ruleStore, "password_wo         = local.replica ? null : ephemeral.aws_secretsmanager_random_password.master.random_password\n", "password = \"hunter2\"\n", byPolicy(), "password is set"},
		{"alarms that nobody hears", alarms, "  evaluation_periods  = 1\n  treat_missing_data  = \"notBreaching\"\n  alarm_actions       = var.alarm_topic_arns", "  evaluation_periods  = 1\n  treat_missing_data  = \"notBreaching\"", byPolicy(), "tells nobody"},
	}
}
