variable "name" {
  description = "Prefix of all names, as limits-us-east."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.name)) && length(var.name) <= 30
    error_message = "name is \"${var.name}\": want 1 to 30 lower-case letters, digits and single hyphens, beginning with a letter."
  }
}

variable "services" {
  description = "Services whose logs are kept."
  type        = set(string)
  default     = ["gateway", "checker", "rules", "rebalancer", "metrics"]

  validation {
    condition     = alltrue([for service in var.services : contains(["gateway", "checker", "rules", "rebalancer", "metrics"], service)])
    error_message = "services are [${join(", ", var.services)}]: want some of gateway, checker, rules, rebalancer and metrics."
  }
}

variable "counter_node_ids" {
  description = "Nodes of the counters by shard, as redis-cluster puts them out."
  type        = map(list(string))

  validation {
    condition     = length(var.counter_node_ids) >= 3 && alltrue([for ids in var.counter_node_ids : length(ids) >= 2])
    error_message = "counter_node_ids are ${length(var.counter_node_ids)} shards of ${join(", ", distinct([for ids in var.counter_node_ids : length(ids)]))} nodes: want at least 3 of at least 2."
  }
}

variable "counter_connections_max" {
  description = "Connections that a node has at most in good times: one a gateway and checker, doubled during a deployment, and some of AWS' own."
  type        = number
  default     = 400

  validation {
    condition     = var.counter_connections_max >= 50 && var.counter_connections_max <= 60000
    error_message = "counter_connections_max is ${var.counter_connections_max}: want 50 to 60000; a node takes 65000."
  }
}

variable "rules_identifier" {
  description = "Name of the region's database."
  type        = string
}

variable "rules_replica" {
  description = "Whether it is a read replica."
  type        = bool
}

variable "rules_connections_max" {
  description = "Connections that the database has at most in good times."
  type        = number
  default     = 100

  validation {
    condition     = var.rules_connections_max >= 10 && var.rules_connections_max <= 5000
    error_message = "rules_connections_max is ${var.rules_connections_max}: want 10 to 5000."
  }
}

variable "alarm_topic_arns" {
  description = "SNS topics of the region that alarms go to."
  type        = set(string)

  validation {
    condition     = length(var.alarm_topic_arns) >= 1 && length(var.alarm_topic_arns) <= 5 && alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+$", arn))])
    error_message = "alarm_topic_arns are [${join(", ", var.alarm_topic_arns)}]: want 1 to 5 ARNs of SNS topics, as arn:aws:sns:us-east-1:123456789012:pages."
  }
}

variable "log_retention_days" {
  description = "How long the services' logs are kept, in days."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}: want one of CloudWatch's: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096 or 1827."
  }
}
