output "store_url" {
  description = "--store of gateways and checkers."
  value       = "rediss://${aws_elasticache_replication_group.this.configuration_endpoint_address}:${local.port}"
}

output "store_user" {
  description = "--store-user of gateways and checkers."
  value       = aws_elasticache_user.limiter.user_name
}

output "replication_group_id" {
  description = "Name of the cluster, which IAM tokens are made for."
  value       = aws_elasticache_replication_group.this.replication_group_id
}

output "node_ids" {
  description = "Names of the nodes, by shard: ElastiCache makes them in this form."
  value = { for shard in range(1, var.shards + 1) : format("%04d", shard) => [
    for node in range(1, var.replicas_per_shard + 2) : format("%s-%04d-%03d", var.name, shard, node)
  ] }
}

output "connect_policy_arn" {
  description = "IAM policy for the role of gateways and checkers."
  value       = aws_iam_policy.connect.arn
}
