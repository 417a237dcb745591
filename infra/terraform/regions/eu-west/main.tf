# eu-west: counters of its own, and a read replica of the home region's rules. Applied after us-east.

locals {
  region = "eu-west" # --region of the services
  name   = "limits-${local.region}"
}

module "network" {
  source = "../../modules/network"

  name               = local.name
  cidr               = "10.65.0.0/16"
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
  maintenance_window        = "sun:03:00-sun:04:00" # UTC
  notification_topic_arn    = var.alarm_topic_arn
  log_retention_days        = var.log_retention_days
}

module "rules" {
  source = "../../modules/rules-postgres"

  name                      = "${local.name}-rules"
  replicate_source_db_arn   = var.rules_source_arn
  vpc_id                    = module.network.vpc_id
  subnet_ids                = module.network.data_subnet_ids
  client_security_group_ids = { rules = module.network.rules_security_group_id }
  instance_class            = var.rules_instance_class
  multi_az                  = false
  backup_window             = "01:00-02:00" # UTC
  maintenance_window        = "sun:02:15-sun:02:45"
  log_retention_days        = var.log_retention_days
}

module "observability" {
  source = "../../modules/observability"

  name                    = local.name
  counter_node_ids        = module.counters.node_ids
  counter_connections_max = 8 * var.pods + 50 # a gateway and a checker a pod, doubled by a deployment, doubled for spare
  rules_identifier        = module.rules.identifier
  rules_replica           = true
  alarm_topic_arns        = [var.alarm_topic_arn]
  log_retention_days      = var.log_retention_days
}
