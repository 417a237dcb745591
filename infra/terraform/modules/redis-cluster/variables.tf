variable "name" {
  description = "Name of the cluster, and prefix of what belongs to it."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.name)) && length(var.name) <= 30
    error_message = "name is \"${var.name}\": want 1 to 30 lower-case letters, digits and single hyphens, beginning with a letter."
  }
}

variable "vpc_id" {
  description = "Network of the cluster."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets, one a zone."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2 && length(var.subnet_ids) <= 20
    error_message = "subnet_ids are ${length(var.subnet_ids)}: want 2 to 20, in as many zones: a replica stands in another zone than its primary."
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

variable "engine" {
  description = "valkey, or redis for Redis OSS 7.1."
  type        = string
  default     = "valkey"

  validation {
    condition     = contains(["valkey", "redis"], var.engine)
    error_message = "engine is \"${var.engine}\": want valkey or redis."
  }
}

variable "node_type" {
  description = "Type of every node. No burstable ones: out of credits they answer in tens of milliseconds."
  type        = string
  default     = "cache.m7g.large"

  validation {
    condition     = can(regex("^cache\\.([mr][67]g\\.(large|xlarge|[248]xlarge|12xlarge|16xlarge)|c7gn\\.(large|xlarge|[248]xlarge|12xlarge|16xlarge))$", var.node_type))
    error_message = "node_type is \"${var.node_type}\": want cache.m6g, m7g, r6g, r7g or c7gn of large to 16xlarge, as cache.m7g.large."
  }
}

variable "shards" {
  description = "Primaries, each with an even part of the 16,384 slots."
  type        = number
  default     = 16

  validation {
    condition     = var.shards >= 3 && var.shards <= 250 && floor(var.shards) == var.shards
    error_message = "shards is ${var.shards}: want a whole number of 3 to 250; with fewer than 3 nobody can vote for a new primary."
  }
}

variable "replicas_per_shard" {
  description = "Replicas of each primary."
  type        = number
  default     = 1

  validation {
    condition     = var.replicas_per_shard >= 1 && var.replicas_per_shard <= 5 && floor(var.replicas_per_shard) == var.replicas_per_shard
    error_message = "replicas_per_shard is ${var.replicas_per_shard}: want a whole number of 1 to 5; failover needs one."
  }
}

variable "maintenance_window" {
  description = "Weekly window in UTC in which AWS may restart nodes: a quiet hour of the region, 60 minutes at least."
  type        = string
  default     = "sun:04:00-sun:05:00"

  validation {
    condition = can(regex("^(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]-(mon|tue|wed|thu|fri|sat|sun):([01][0-9]|2[0-3]):[0-5][0-9]$", var.maintenance_window)) && try(alltrue([
      for ends in [[for end in split("-", var.maintenance_window) : index(["mon", "tue", "wed", "thu", "fri", "sat", "sun"], substr(end, 0, 3)) * 1440 + tonumber(substr(end, 4, 2)) * 60 + tonumber(substr(end, 7, 2))]] :
      (ends[1] - ends[0] + 10080) % 10080 >= 60 # minutes, over the end of a week of 10,080
    ]), false)
    error_message = "maintenance_window is \"${var.maintenance_window}\": want ddd:hh:mm-ddd:hh:mm in UTC, 60 minutes at least, as sun:04:00-sun:05:00."
  }
}

variable "notification_topic_arn" {
  description = "SNS topic that ElastiCache tells of failovers and replaced nodes."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$", var.notification_topic_arn))
    error_message = "notification_topic_arn is \"${var.notification_topic_arn}\": want the ARN of an SNS topic, as arn:aws:sns:us-east-1:123456789012:pages."
  }
}

variable "log_retention_days" {
  description = "How long the slow log and the engine's log are kept, in days. The slow log holds keys, and keys name users."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}: want one of CloudWatch's: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096 or 1827."
  }
}
