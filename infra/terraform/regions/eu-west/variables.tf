variable "alarm_topic_arn" {
  description = "SNS topic of this region that alarms, failovers and replaced nodes are told to."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:sns:eu-west-1:[0-9]{12}:[A-Za-z0-9_-]+$", var.alarm_topic_arn))
    error_message = "alarm_topic_arn is \"${var.alarm_topic_arn}\": want the ARN of an SNS topic in eu-west-1, as arn:aws:sns:eu-west-1:123456789012:pages."
  }
}

variable "rules_source_arn" {
  description = "The home region's database: output rules_arn of us-east."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:rds:us-east-1:[0-9]{12}:db:limits-us-east-rules$", var.rules_source_arn))
    error_message = "rules_source_arn is \"${var.rules_source_arn}\": want output rules_arn of us-east, arn:aws:rds:us-east-1:ACCOUNT:db:limits-us-east-rules."
  }
}

variable "zones" {
  description = "Availability zones, three or more. Names differ between accounts, and not every zone has every node type."
  type        = list(string)
  default     = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]

  validation {
    condition     = length(distinct(var.zones)) >= 3 && length(distinct(var.zones)) == length(var.zones) && alltrue([for zone in var.zones : can(regex("^eu-west-1[a-z]$", zone))])
    error_message = "zones are [${join(", ", var.zones)}]: want 3 or more different ones of eu-west-1, as eu-west-1a."
  }
}

variable "pods" {
  description = "Gateway pods that the region has at least: --region-pods."
  type        = number
  default     = 50

  validation {
    condition     = var.pods >= 1 && var.pods <= 5000 && floor(var.pods) == var.pods
    error_message = "pods is ${var.pods}: want a whole number of 1 to 5000."
  }
}

# The modules validate what they are given; the README says how these are sized.

variable "counter_engine" {
  description = "valkey or redis."
  type        = string
  default     = "valkey"
}

variable "counter_node_type" {
  description = "Type of the counters' nodes."
  type        = string
  default     = "cache.m7g.large"
}

variable "counter_shards" {
  description = "Primaries of the counters."
  type        = number
  default     = 16
}

variable "counter_replicas" {
  description = "Replicas of each primary."
  type        = number
  default     = 1
}

variable "rules_instance_class" {
  description = "Class of the rules' database."
  type        = string
  default     = "db.t4g.medium"
}

variable "log_retention_days" {
  description = "How long logs are kept, in days."
  type        = number
  default     = 30
}
