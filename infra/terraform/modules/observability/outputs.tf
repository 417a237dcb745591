output "log_groups" {
  description = "Log groups of the services, by service."
  value       = { for service, group in aws_cloudwatch_log_group.service : service => group.name }
}

output "alarm_names" {
  description = "All alarms of the region."
  value       = sort([for alarm in concat(values(aws_cloudwatch_metric_alarm.counters), values(aws_cloudwatch_metric_alarm.failover), values(aws_cloudwatch_metric_alarm.rules)) : alarm.alarm_name])
}
