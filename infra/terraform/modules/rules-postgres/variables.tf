variable "name" {
  description = "Name of the instance, and prefix of what belongs to it."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.name)) && length(var.name) <= 40
    error_message = "name is \"${var.name}\": want 1 to 40 lower-case letters, digits and single hyphens, beginning with a letter."
  }
}

variable "vpc_id" {
  description = "Network of the instance."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets, one a zone."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2 && length(var.subnet_ids) <= 20
    error_message = "subnet_ids are ${length(var.subnet_ids)}: want 2 to 20, in as many zones."
  }
}

variable "client_security_group_ids" {
  description = "Security groups that may connect, by a name that says who it is."
  type        = map(string)

  validation {
    condition     = length(var.client_security_group_ids) >= 1 && length(var.client_security_group_ids) <= 10
    error_message = "client_security_group_ids are ${length(var.client_security_group_ids)}: want 1 to 10."
  }
}

variable "replicate_source_db_arn" {
  description = "ARN of the home region's instance, which this one is then a read replica of; null in the home region."
  type        = string
  default     = null

  validation {
    condition     = var.replicate_source_db_arn == null || can(regex("^arn:aws[a-z-]*:rds:[a-z0-9-]+:[0-9]{12}:db:[a-z][a-z0-9-]*$", var.replicate_source_db_arn))
    error_message = "replicate_source_db_arn is \"${coalesce(var.replicate_source_db_arn, "null")}\": want null or the ARN of a database, as arn:aws:rds:us-east-1:123456789012:db:limits-us-east-rules."
  }
}

variable "instance_class" {
  description = "Class of the instance. Rules are few and pods do not ask it, so that a small one does."
  type        = string
  default     = "db.t4g.medium"

  validation {
    condition     = can(regex("^db\\.(t4g\\.(medium|large|xlarge|2xlarge)|[mr][67]g\\.(large|xlarge|[248]xlarge|12xlarge|16xlarge))$", var.instance_class))
    error_message = "instance_class is \"${var.instance_class}\": want db.t4g of medium to 2xlarge, or db.m6g, m7g, r6g or r7g of large to 16xlarge."
  }
}

variable "multi_az" {
  description = "Whether a standby waits in another zone. A region without its replica polls the home region."
  type        = bool
  default     = true
}

variable "master_password_version" {
  description = "Raise it by one to give the master user a new password."
  type        = number
  default     = 1

  validation {
    condition     = var.master_password_version >= 1 && floor(var.master_password_version) == var.master_password_version
    error_message = "master_password_version is ${var.master_password_version}: want a whole number of 1 or more."
  }
}

variable "backup_retention_days" {
  description = "How far back the instance can be restored, in days."
  type        = number
  default     = 14

  validation {
    condition     = var.backup_retention_days >= 1 && var.backup_retention_days <= 35 && floor(var.backup_retention_days) == var.backup_retention_days
    error_message = "backup_retention_days is ${var.backup_retention_days}: want a whole number of 1 to 35; replicas need backups."
  }
}

variable "backup_window" {
  description = "Daily window of the backup in UTC, 30 minutes at least, clear of the maintenance."
  type        = string
  default     = "02:00-03:00"

  validation {
    condition     = can(regex("^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$", var.backup_window))
    error_message = "backup_window is \"${var.backup_window}\": want hh:mm-hh:mm in UTC, 30 minutes at least, as 02:00-03:00."
  }
}

variable "maintenance_window" {
  description = "Weekly window in UTC in which AWS may restart the instance: a quiet hour of the region, 30 minutes at least, clear of the backup."
  type        = string
  default     = "sun:03:30-sun:04:30"

  validation {
    condition = can(regex("^(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]-(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]$", var.maintenance_window)) && try(alltrue([
      for ends in [[for end in split("-", var.maintenance_window) : index(["mon", "tue", "wed", "thu", "fri", "sat", "sun"], substr(end, 0, 3)) * 1440 + tonumber(substr(end, 4, 2)) * 60 + tonumber(substr(end, 7, 2))]] :
      (ends[1] - ends[0] + 10080) % 10080 >= 30 # minutes, over the end of a week of 10,080
    ]), false)
    error_message = "maintenance_window is \"${var.maintenance_window}\": want ddd:hh:mm-ddd:hh:mm in UTC, 30 minutes at least, as sun:03:30-sun:04:30."
  }
}

variable "log_retention_days" {
  description = "How long PostgreSQL's logs are kept, in days."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}: want one of CloudWatch's: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096 or 1827."
  }
}
