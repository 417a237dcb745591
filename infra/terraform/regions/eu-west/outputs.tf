output "limiter_environment" {
  description = "Environment of gateways and checkers, whose role needs the policy of the output counters."
  value = {
    SHIPLANE_STORE       = module.counters.store_url
    SHIPLANE_STORE_USER  = module.counters.store_user
    SHIPLANE_STORE_IAM   = module.counters.replication_group_id
    SHIPLANE_REGION      = local.region
    SHIPLANE_REGION_PODS = tostring(var.pods)
  }
}

output "rules_environment" {
  description = "Environment of the rules service. Give it also SHIPLANE_STORE_PASSWORD_FILE, and PGSSLROOTCERT, a file with RDS' certificates."
  value       = { SHIPLANE_STORE = module.rules.store_url }
}

output "counters" {
  description = "The cluster's name, which IAM tokens are made for, and the policy that lets a role be its user."
  value = {
    replication_group_id = module.counters.replication_group_id
    connect_policy_arn   = module.counters.connect_policy_arn
  }
}

output "rules_arn" {
  description = "The rules' database."
  value       = module.rules.arn
}

output "rules_host" {
  description = "Host of the rules' database."
  value       = module.rules.host
}

output "network" {
  description = "What the pods' cluster is put into."
  value = {
    vpc_id                    = module.network.vpc_id
    pod_subnet_ids            = module.network.pod_subnet_ids
    pod_route_table_ids       = module.network.pod_route_table_ids
    limiter_security_group_id = module.network.limiter_security_group_id
    rules_security_group_id   = module.network.rules_security_group_id
  }
}

output "log_groups" {
  description = "Log groups of the services."
  value       = module.observability.log_groups
}
