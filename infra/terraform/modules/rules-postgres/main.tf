# The rules: PostgreSQL in two zones of the home region, or a read replica of it in another region. A standby takes no
# LISTEN, so the home region's services listen and those of other regions poll.

locals {
  replica = var.replicate_source_db_arn != null
  home    = local.replica ? toset([]) : toset(["home"]) # what only the instance that is written has
  port    = 5432
  logs    = ["postgresql", "upgrade"]
}

resource "aws_db_subnet_group" "this" {
  name        = var.name
  description = "Rules of ${var.name}"
  subnet_ids  = var.subnet_ids
}

resource "aws_security_group" "this" {
  name        = var.name
  description = "Rules of ${var.name}"
  vpc_id      = var.vpc_id
  tags        = { Name = var.name }
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
  description                  = "rules"
}

# Named by its family: a new major version needs another group, which is made before the old one goes.
resource "aws_db_parameter_group" "this" {
  name        = "${var.name}-postgres17"
  family      = "postgres17"
  description = "Rules of ${var.name}"

  dynamic "parameter" {
    for_each = {
      "rds.force_ssl"                       = "1"
      "log_min_duration_statement"          = "500" # milliseconds: every statement of the service takes a few
      "log_lock_waits"                      = "1"
      "idle_in_transaction_session_timeout" = "60000" # milliseconds: a writer that hangs holds the one revision counter
    }
    content {
      name  = parameter.key
      value = parameter.value
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_kms_key" "this" {
  description             = "Rules of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = 30
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}

# Never in the state: made anew at each run, and sent on only when master_password_version changes.
ephemeral "aws_secretsmanager_random_password" "master" {
  password_length     = 48
  exclude_punctuation = true
}

# Not RDS' own secret (manage_master_user_password): an instance that has one cannot have read replicas in other regions.
resource "aws_secretsmanager_secret" "master" {
  for_each = local.home

  name                    = "${var.name}-master"
  description             = "Master user of ${var.name}"
  kms_key_id              = aws_kms_key.this.arn
  recovery_window_in_days = 30
}

resource "aws_secretsmanager_secret_version" "master" {
  for_each = local.home

  secret_id = aws_secretsmanager_secret.master[each.key].id
  secret_string_wo = jsonencode({
    username = "rules_admin"
    password = ephemeral.aws_secretsmanager_random_password.master.random_password
  })
  secret_string_wo_version = var.master_password_version
}

# RDS would make these itself, and keep them for ever.
resource "aws_cloudwatch_log_group" "this" {
  for_each = toset(local.logs)

  name              = "/aws/rds/instance/${var.name}/${each.key}"
  retention_in_days = var.log_retention_days
}

resource "aws_db_instance" "this" {
  identifier          = var.name
  replicate_source_db = var.replicate_source_db_arn
  engine              = local.replica ? null : "postgres" # a replica has its source's
  engine_version      = local.replica ? null : "17"
  instance_class      = var.instance_class
  multi_az            = var.multi_az
  port                = local.port

  db_name             = local.replica ? null : "rules"
  username            = local.replica ? null : "rules_admin"
  password_wo         = local.replica ? null : ephemeral.aws_secretsmanager_random_password.master.random_password
  password_wo_version = local.replica ? null : var.master_password_version

  allocated_storage     = local.replica ? null : 20 # GiB, the least; rules and their history take megabytes
  max_allocated_storage = 200
  storage_type          = "gp3"
  storage_encrypted     = true
  kms_key_id            = aws_kms_key.this.arn

  db_subnet_group_name                = aws_db_subnet_group.this.name
  vpc_security_group_ids              = [aws_security_group.this.id]
  publicly_accessible                 = false
  parameter_group_name                = aws_db_parameter_group.this.name
  ca_cert_identifier                  = "rds-ca-rsa2048-g1"
  iam_database_authentication_enabled = true

  backup_retention_period   = var.backup_retention_days
  backup_window             = var.backup_window
  copy_tags_to_snapshot     = true
  delete_automated_backups  = false
  deletion_protection       = true
  skip_final_snapshot       = local.replica
  final_snapshot_identifier = local.replica ? null : "${var.name}-final"

  enabled_cloudwatch_logs_exports       = [for group in aws_cloudwatch_log_group.this : split("/", group.name)[5]]
  performance_insights_enabled          = true
  performance_insights_kms_key_id       = aws_kms_key.this.arn
  performance_insights_retention_period = 7 # days, which costs nothing

  auto_minor_version_upgrade = true
  maintenance_window         = var.maintenance_window
  apply_immediately          = false # what restarts it waits for the window

  lifecycle {
    prevent_destroy = true
  }
}
