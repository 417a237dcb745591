output "host" {
  description = "Host of the database."
  value       = aws_db_instance.this.address
}

output "store_url" {
  description = "--store of the rules service; its user \"rules\" is made once, by hand (see the README)."
  value       = "postgres://rules@${aws_db_instance.this.address}:${local.port}/rules?sslmode=verify-full"
}

output "arn" {
  description = "What replicas in other regions are made of."
  value       = aws_db_instance.this.arn
}

output "identifier" {
  description = "Name of the instance."
  value       = aws_db_instance.this.identifier
}

output "master_secret_arn" {
  description = "Secret with the master user's password; null for a replica, which has its source's users."
  value       = one([for secret in aws_secretsmanager_secret.master : secret.arn])
}
