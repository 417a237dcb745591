variables {
  name = "limits-test"
  counter_node_ids = {
    "0001" = ["limits-test-0001-001", "limits-test-0001-002"]
    "0002" = ["limits-test-0002-001", "limits-test-0002-002"]
    "0003" = ["limits-test-0003-001", "limits-test-0003-002"]
  }
  rules_identifier = "limits-test-rules"
  rules_replica    = false
  alarm_topic_arns = ["arn:aws:sns:us-east-1:123456789012:pages"]
}

run "every_node_has_every_alarm_and_every_shard_its_failover" {
  command = plan

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.counters) == 6 * 5 && length(aws_cloudwatch_metric_alarm.failover) == 3
    error_message = "want 5 alarms a node and one a shard"
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.counters["evictions-limits-test-0003-002"].threshold == 0 && aws_cloudwatch_metric_alarm.counters["evictions-limits-test-0003-002"].comparison_operator == "GreaterThanThreshold"
    error_message = "the first eviction must ring"
  }
}

run "a_failover_rings_whichever_node_is_the_primary" {
  command = plan

  assert {
    condition     = sort([for query in aws_cloudwatch_metric_alarm.failover["0003"].metric_query : query.metric[0].dimensions.CacheClusterId if length(query.metric) == 1]) == tolist(["limits-test-0003-001", "limits-test-0003-002"])
    error_message = "want all nodes of the shard: a primary that died reports nothing"
  }
}

run "the_home_region_watches_the_slots_of_its_replicas" {
  command = plan
  assert {
    condition     = sort(keys(aws_cloudwatch_metric_alarm.rules)) == tolist(["connections", "cpu", "memory", "replication-slot", "storage"])
    error_message = "alarms: ${join(", ", keys(aws_cloudwatch_metric_alarm.rules))}"
  }
}

run "a_replica_rings_before_rules_are_30_seconds_late" {
  command = plan
  variables {
    rules_replica = true
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.rules["replica-lag"].threshold < 30 && !contains(keys(aws_cloudwatch_metric_alarm.rules), "replication-slot")
    error_message = "want an alarm of lag below 30 s"
  }
}

run "refuses_alarms_that_nobody_hears" {
  command = plan
  variables {
    alarm_topic_arns = []
  }
  expect_failures = [var.alarm_topic_arns]
}

run "refuses_an_unknown_service" {
  command = plan
  variables {
    services = ["gatway"]
  }
  expect_failures = [var.services]
}

run "refuses_shards_without_replicas" {
  command = plan
  variables {
    counter_node_ids = { "0001" = ["a"], "0002" = ["b"], "0003" = ["c"] }
  }
  expect_failures = [var.counter_node_ids]
}
