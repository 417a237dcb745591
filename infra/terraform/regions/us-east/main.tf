# us-east: the home region, whose database is the one that is written. Applied first.

locals {
  region = "us-east" # --region of the services
  name   = "limits-${local.region}"
}

module "network" {
  source = "../../modules/network"

  name               = local.name
  cidr               = "10.64.0.0/16"
  zones              = var.zones
  log_retention_days = var.log_retention_days
}

module "counters" {
  source = "../../modules/redis-cluster"

  name                      = local.name
  vpc_id                    = module.network.vpc_id
  subnet_ids                = module.network.data_subnet_ids
  client_security_group_ids = { limiter = module.network.limiter_security_group_id }
  engine                    = var.counter_engine
  node_type                 = var.counter_node_type
  shards                    = var.counter_shards
  replicas_per_shard        = var.counter_replicas
  maintenance_window        = "sun:08:00-sun:09:00" # UTC
  notification_topic_arn    = var.alarm_topic_arn
  log_retention_days        = var.log_retention_days
}

module "rules" {
  source = "../../modules/rules-postgres"

  name                      = "${local.name}-rules"
  vpc_id                    = module.network.vpc_id
  subnet_ids                = module.network.data_subnet_ids
  client_security_group_ids = { rules = module.network.rules_security_group_id }
  instance_class            = var.rules_instance_class
  multi_az                  = true
  master_password_version   = var.rules_master_password_version
  backup_window             = "06:00-07:00" # UTC
  maintenance_window        = "sun:07:15-sun:07:45"
  log_retention_days        = var.log_retention_days
}

module "observability" {
  source = "../../modules/observability"

  name                    = local.name
  counter_node_ids        = module.counters.node_ids
  counter_connections_max = 8 * var.pods + 50 # a gateway and a checker a pod, doubled by a deployment, doubled for spare
  rules_identifier        = module.rules.identifier
  rules_replica           = false
  alarm_topic_arns        = [var.alarm_topic_arn]
  log_retention_days      = var.log_retention_days
}
