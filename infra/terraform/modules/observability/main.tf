# What CloudWatch sees of a region: the services' logs, and alarms on the counters and the rules. What only the services
# know (refusals, breakers, leases) is in their own metrics.

locals {
  nodes = merge([for shard, ids in var.counter_node_ids : { for id in ids : id => shard }]...)

  # Each holds for every node. Thresholds are meant to ring before gateways notice anything.
  node_alarms = {
    engine-cpu = {
      metric = "EngineCPUUtilization", statistic = "Average", threshold = 60, minutes = 5
      why    = "The one thread that runs checks is busy. Sizing leaves half of it free: find the hot key (/debug/top of a gateway) or add shards."
    }
    memory = {
      metric = "DatabaseMemoryUsagePercentage", statistic = "Maximum", threshold = 60, minutes = 5
      why    = "Long before the first eviction: an evicted bucket is full when it comes back. Look for a flood of user names."
    }
    evictions = {
      metric = "Evictions", statistic = "Sum", threshold = 0, minutes = 1
      why    = "Counters are being forgotten, and their limits begin anew."
    }
    replication-lag = {
      metric = "ReplicationLag", statistic = "Maximum", threshold = 1, minutes = 3
      why    = "A failover now would give back more than a second of charges."
    }
    connections = {
      metric = "CurrConnections", statistic = "Maximum", threshold = var.counter_connections_max, minutes = 5
      why    = "A gateway keeps one connection a node: more than expected means a reconnect storm or strangers."
    }
  }

  counter_alarms = merge([for name, alarm in local.node_alarms : {
    for node, shard in local.nodes : "${name}-${node}" => merge(alarm, { node = node })
  }]...)

  rules_alarms = merge({
    cpu = {
      metric = "CPUUtilization", comparison = "GreaterThanThreshold", threshold = 80, minutes = 10
      why    = "The rules service asks little; look at performance insights."
    }
    storage = {
      metric = "FreeStorageSpace", comparison = "LessThanThreshold", threshold = 5 * pow(1024, 3), minutes = 5
      why    = "Less than 5 GiB are free. RDS adds storage when a tenth is left, at most once in six hours and up to max_allocated_storage."
    }
    memory = {
      metric = "FreeableMemory", comparison = "LessThanThreshold", threshold = 256 * pow(1024, 2), minutes = 10
      why    = "Less than 256 MiB are free."
    }
    connections = {
      metric = "DatabaseConnections", comparison = "GreaterThanThreshold", threshold = var.rules_connections_max, minutes = 5
      why    = "More than the instances of the rules service open."
    }
    },
    var.rules_replica ? {
      replica-lag = {
        metric = "ReplicaLag", comparison = "GreaterThanThreshold", threshold = 20, minutes = 3 # seconds
        why    = "This region's copy of the rules is late. It looks up to 5 minutes late while nothing at all is written at home: pods that follow the rules service report every 10 s."
      }
      } : {
      replication-slot = {
        metric = "OldestReplicationSlotLag", comparison = "GreaterThanThreshold", threshold = 2 * pow(1024, 3), minutes = 10
        why    = "A region's replica has stopped reading, and what it has not read fills the disk."
      }
  })
}

resource "aws_cloudwatch_log_group" "service" {
  for_each = var.services

  name              = "/shiplane/${var.name}/${each.key}"
  retention_in_days = var.log_retention_days
}

resource "aws_cloudwatch_metric_alarm" "counters" {
  for_each = local.counter_alarms

  alarm_name          = "${var.name}-counters-${each.key}"
  alarm_description   = each.value.why
  namespace           = "AWS/ElastiCache"
  metric_name         = each.value.metric
  dimensions          = { CacheClusterId = each.value.node, CacheNodeId = "0001" }
  statistic           = each.value.statistic
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.threshold
  period              = 60
  evaluation_periods  = each.value.minutes
  treat_missing_data  = "notBreaching" # a primary reports no lag; a node that is being replaced reports nothing
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}

# There is no metric of failovers: this is a node of a shard becoming a primary, or ceasing to be one. All nodes are looked
# at, for a primary that died reports nothing: who tells of it is the replica that took over.
resource "aws_cloudwatch_metric_alarm" "failover" {
  for_each = var.counter_node_ids

  alarm_name          = "${var.name}-counters-failover-${each.key}"
  alarm_description   = "Shard ${each.key} has another primary. Its open rules were on fallback buckets meanwhile, its closed ones answered 503."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns

  metric_query {
    id          = "changed"
    expression  = "MAX(ABS(DIFF(METRICS())))"
    label       = "Failover"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = each.value
    content {
      id = "node${metric_query.key}"

      metric {
        namespace   = "AWS/ElastiCache"
        metric_name = "IsMaster"
        dimensions  = { CacheClusterId = metric_query.value, CacheNodeId = "0001" }
        stat        = "Maximum"
        period      = 60
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "rules" {
  for_each = local.rules_alarms

  alarm_name          = "${var.name}-rules-${each.key}"
  alarm_description   = each.value.why
  namespace           = "AWS/RDS"
  metric_name         = each.value.metric
  dimensions          = { DBInstanceIdentifier = var.rules_identifier }
  statistic           = "Average"
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  period              = 60
  evaluation_periods  = each.value.minutes
  treat_missing_data  = "missing"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}
