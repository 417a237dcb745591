variable "name" {
  description = "Prefix of all names, as limits-us-east."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.name)) && length(var.name) <= 30
    error_message = "name is \"${var.name}\": want 1 to 30 lower-case letters, digits and single hyphens, beginning with a letter."
  }
}

variable "cidr" {
  description = "IPv4 network of the region. No other region's overlaps with it, so that they can be joined."
  type        = string

  validation {
    condition     = can(regex("^(10|172\\.(1[6-9]|2[0-9]|3[01])|192\\.168)\\.[0-9./]+/16$", var.cidr)) && try(cidrhost(var.cidr, 0) == split("/", var.cidr)[0], false)
    error_message = "cidr is \"${var.cidr}\": want a private network of /16, as 10.64.0.0/16."
  }
}

variable "zones" {
  description = "Availability zones to spread over."
  type        = list(string)

  validation {
    condition     = length(var.zones) >= 2 && length(var.zones) <= 6 && length(distinct(var.zones)) == length(var.zones)
    error_message = "zones are [${join(", ", var.zones)}]: want 2 to 6 different ones; failover needs a second."
  }
}

variable "log_retention_days" {
  description = "How long the log of rejected connections is kept, in days."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827], var.log_retention_days)
    error_message = "log_retention_days is ${var.log_retention_days}: want one of CloudWatch's: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096 or 1827."
  }
}
