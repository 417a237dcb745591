variable "alarm_topic_arn" {
  description = "SNS topic of this region that alarms, failovers and replaced nodes are told to."
  type        = string

  validation {
    condition     = can(regex("^arn:aws[a-z-]*:sns:us-east-1:[0-9]{12}:[A-Za-z0-9_-]+$", var.alarm_topic_arn))
    error_message = "alarm_topic_arn is \"${var.alarm_topic_arn}\": want the ARN of an SNS topic in us-east-1, as arn:aws:sns:us-east-1:123456789012:pages."
  }
}

variable "zones" {
  description = "Availability zones, three or more. Names differ between accounts, and not every zone has every node type."
  type        = list(string)
  default     = ["us-east-1a", "us-east-1b", "us-east-1c"]

  validation {
    condition     = length(distinct(var.zones)) >= 3 && length(distinct(var.zones)) == length(var.zones) && alltrue([for zone in var.zones : can(regex("^us-east-1[a-z]$", zone))])
    error_message = "zones are [${join(", ", var.zones)}]: want 3 or more different ones of us-east-1, as us-east-1a."
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

variable "rules_master_password_version" {
  description = "Raise it by one to give the database's master user a new password."
  type        = number
  default     = 1
}

variable "log_retention_days" {
  description = "How long logs are kept, in days."
  type        = number
  default     = 30
}
