# A region's counters: ElastiCache in cluster mode. Counters are disposable, so there is no backup; they must answer
# within 5 ms, so each shard has a replica in another zone, and one lost shard stops no other.

locals {
  port = 6379

  engines = {
    valkey = { version = "8.1", family = "valkey8" }
    redis  = { version = "7.1", family = "redis7" }
  }
  engine = local.engines[var.engine]

  # What AWS does not let anybody set: cluster-node-timeout (see the README).
  parameters = {
    "cluster-enabled"               = "yes"
    "cluster-require-full-coverage" = "no" # else one lost shard ends all sixteen
    # An evicted bucket is a free refill: only counters that expire may go, the least used first, so that a flood of
    # new addresses pushes out itself and no merchant.
    "maxmemory-policy"        = "volatile-lfu"
    "reserved-memory-percent" = "25"
    "timeout"                 = "0" # gateways keep one connection a node, idle or not
    "tcp-keepalive"           = "60"
    "slowlog-log-slower-than" = "2000" # microseconds: a check takes some 20
  }
}

resource "aws_elasticache_subnet_group" "this" {
  name        = var.name
  description = "Counters of ${var.name}"
  subnet_ids  = var.subnet_ids
}

resource "aws_security_group" "this" {
  name        = "${var.name}-counters"
  description = "Counters of ${var.name}"
  vpc_id      = var.vpc_id
  tags        = { Name = "${var.name}-counters" }
}

resource "aws_vpc_security_group_ingress_rule" "client" {
  for_each = var.client_security_group_ids

  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  description                  = each.key
}

resource "aws_vpc_security_group_egress_rule" "client" {
  for_each = var.client_security_group_ids

  security_group_id            = each.value
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
  description                  = "counters"
}

# Named by its family: a new major version needs another group, which is made before the old one goes.
resource "aws_elasticache_parameter_group" "this" {
  name        = "${var.name}-${local.engine.family}"
  family      = local.engine.family
  description = "Counters of ${var.name}"

  dynamic "parameter" {
    for_each = local.parameters
    content {
      name  = parameter.key
      value = parameter.value
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

# The user "default" is who connects without a name. It is off, and its password is known to nobody.
ephemeral "aws_secretsmanager_random_password" "nobody" {
  password_length     = 64
  exclude_punctuation = true
}

resource "aws_elasticache_user" "default" {
  user_id              = "${var.name}-default"
  user_name            = "default"
  engine               = var.engine
  access_string        = "off -@all"
  passwords_wo         = ephemeral.aws_secretsmanager_random_password.nobody.random_password
  passwords_wo_version = 1
}

# Who has IAM as its password must have one name as id and as user.
resource "aws_elasticache_user" "limiter" {
  user_id       = "${var.name}-limiter"
  user_name     = "${var.name}-limiter"
  engine        = var.engine
  access_string = "on ~rl:* resetchannels -@all +@read +@write +@scripting +@connection -@dangerous +time +cluster|slots +cluster|shards +cluster|nodes"

  authentication_mode {
    type = "iam"
  }
}

resource "aws_elasticache_user_group" "this" {
  user_group_id = var.name
  engine        = var.engine
  user_ids      = [aws_elasticache_user.default.user_id, aws_elasticache_user.limiter.user_id]
}

# For the role of gateways and checkers: it allows them to be the user above, and nothing else.
resource "aws_iam_policy" "connect" {
  name        = "${var.name}-counters-connect"
  description = "Connect to the counters of ${var.name} as its limiter"

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "elasticache:Connect"
      Resource = [aws_elasticache_replication_group.this.arn, aws_elasticache_user.limiter.arn]
    }]
  })
}

resource "aws_kms_key" "this" {
  description             = "Counters of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}-counters"
  target_key_id = aws_kms_key.this.key_id
}

resource "aws_cloudwatch_log_group" "this" {
  for_each = toset(["slow-log", "engine-log"])

  name              = "/shiplane/${var.name}/counters/${each.key}"
  retention_in_days = var.log_retention_days
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id = var.name
  description          = "Counters of ${var.name}, ${var.shards} shards"
  engine               = var.engine
  engine_version       = local.engine.version
  node_type            = var.node_type
  port                 = local.port

  cluster_mode               = "enabled"
  num_node_groups            = var.shards
  replicas_per_node_group    = var.replicas_per_shard
  automatic_failover_enabled = true
  multi_az_enabled           = true
  snapshot_retention_limit   = 0 # a fork on a busy primary for counters that live for seconds

  parameter_group_name       = aws_elasticache_parameter_group.this.name
  subnet_group_name          = aws_elasticache_subnet_group.this.name
  security_group_ids         = [aws_security_group.this.id]
  user_group_ids             = [aws_elasticache_user_group.this.user_group_id]
  at_rest_encryption_enabled = true
  kms_key_id                 = aws_kms_key.this.arn
  transit_encryption_enabled = true
  transit_encryption_mode    = "required"

  auto_minor_version_upgrade = true
  maintenance_window         = var.maintenance_window
  apply_immediately          = false # what restarts nodes waits for the window
  notification_topic_arn     = var.notification_topic_arn

  dynamic "log_delivery_configuration" {
    for_each = aws_cloudwatch_log_group.this
    content {
      destination      = log_delivery_configuration.value.name
      destination_type = "cloudwatch-logs"
      log_format       = "json"
      log_type         = log_delivery_configuration.key
    }
  }

  lifecycle {
    prevent_destroy = true # ElastiCache has no deletion protection of its own

    precondition {
      condition     = var.shards * (1 + var.replicas_per_shard) <= 500
      error_message = "${var.shards} shards of ${1 + var.replicas_per_shard} nodes are more than the 500 nodes that a cluster may have."
    }
  }
}
