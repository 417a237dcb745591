variables {
  name                      = "limits-test"
  vpc_id                    = "vpc-0"
  subnet_ids                = ["subnet-a", "subnet-b", "subnet-c"]
  client_security_group_ids = { limiter = "sg-0" }
  notification_topic_arn    = "arn:aws:sns:us-east-1:123456789012:pages"
}

run "sixteen_shards_with_a_replica_each" {
  command = plan

  assert {
    condition     = aws_elasticache_replication_group.this.num_node_groups == 16 && aws_elasticache_replication_group.this.replicas_per_node_group == 1
    error_message = "want 16 primaries with a replica each"
  }
  assert {
    condition     = length(output.node_ids) == 16 && output.node_ids["0016"] == ["limits-test-0016-001", "limits-test-0016-002"]
    error_message = "nodes: ${jsonencode(output.node_ids)}"
  }
}

run "valkey_unless_asked" {
  command = plan
  assert {
    condition     = aws_elasticache_replication_group.this.engine == "valkey" && aws_elasticache_parameter_group.this.family == "valkey8"
    error_message = "want valkey 8"
  }
}

run "redis_by_a_variable" {
  command = plan
  variables {
    engine = "redis"
  }
  assert {
    condition     = aws_elasticache_replication_group.this.engine_version == "7.1" && aws_elasticache_parameter_group.this.family == "redis7" && aws_elasticache_user_group.this.engine == "redis"
    error_message = "want Redis OSS 7.1 in the cluster, its parameters and its users"
  }
}

run "refuses_an_unknown_engine" {
  command = plan
  variables {
    engine = "memcached"
  }
  expect_failures = [var.engine]
}

run "refuses_burstable_nodes" {
  command = plan
  variables {
    node_type = "cache.t4g.medium"
  }
  expect_failures = [var.node_type]
}

run "refuses_two_shards" {
  command = plan
  variables {
    shards = 2
  }
  expect_failures = [var.shards]
}

run "refuses_a_part_of_a_shard" {
  command = plan
  variables {
    shards = 16.5
  }
  expect_failures = [var.shards]
}

run "refuses_no_replica" {
  command = plan
  variables {
    replicas_per_shard = 0
  }
  expect_failures = [var.replicas_per_shard]
}

run "refuses_more_than_500_nodes" {
  command = plan
  variables {
    shards             = 250
    replicas_per_shard = 2
  }
  expect_failures = [aws_elasticache_replication_group.this]
}

run "refuses_one_subnet" {
  command = plan
  variables {
    subnet_ids = ["subnet-a"]
  }
  expect_failures = [var.subnet_ids]
}

run "refuses_no_client" {
  command = plan
  variables {
    client_security_group_ids = {}
  }
  expect_failures = [var.client_security_group_ids]
}

run "refuses_a_window_without_a_day" {
  command = plan
  variables {
    maintenance_window = "04:00-05:00"
  }
  expect_failures = [var.maintenance_window]
}

run "refuses_a_window_of_half_an_hour" {
  command = plan
  variables {
    maintenance_window = "sun:23:30-mon:00:00"
  }
  expect_failures = [var.maintenance_window]
}

run "takes_an_hour_over_the_end_of_the_week" {
  command = plan
  variables {
    maintenance_window = "sun:23:08-mon:00:08"
  }
  assert {
    condition     = aws_elasticache_replication_group.this.maintenance_window == "sun:23:08-mon:00:08"
    error_message = "want the window as it is given"
  }
}

run "refuses_what_is_no_topic" {
  command = plan
  variables {
    notification_topic_arn = "arn:aws:sqs:us-east-1:123456789012:pages"
  }
  expect_failures = [var.notification_topic_arn]
}
