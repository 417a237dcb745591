output "vpc_id" {
  description = "The network, for peering and for the cluster of the pods."
  value       = aws_vpc.this.id
}

output "pod_subnet_ids" {
  description = "Private subnets for pods, by zone."
  value       = { for zone, subnet in aws_subnet.pods : zone => subnet.id }
}

output "pod_route_table_ids" {
  description = "Route tables of the pods' subnets, by zone: where a way out and the peers of other regions belong."
  value       = { for zone, table in aws_route_table.pods : zone => table.id }
}

output "data_subnet_ids" {
  description = "Subnets without a route out, for the counters and the rules."
  value       = [for subnet in aws_subnet.data : subnet.id]
}

output "limiter_security_group_id" {
  description = "Carried by gateways and checkers."
  value       = aws_security_group.limiter.id
}

output "rules_security_group_id" {
  description = "Carried by the rules service."
  value       = aws_security_group.rules.id
}
