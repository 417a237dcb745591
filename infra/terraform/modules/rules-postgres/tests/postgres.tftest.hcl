variables {
  name                      = "limits-test-rules"
  vpc_id                    = "vpc-0"
  subnet_ids                = ["subnet-a", "subnet-b"]
  client_security_group_ids = { rules = "sg-0" }
}

run "the_home_instance_has_a_master_user_and_its_secret" {
  command = plan

  assert {
    condition     = aws_db_instance.this.username == "rules_admin" && aws_db_instance.this.password_wo_version == 1 && length(aws_secretsmanager_secret.master) == 1
    error_message = "want a master user whose password is in a secret"
  }
  assert {
    condition     = aws_db_instance.this.password_wo == null && aws_db_instance.this.password == null
    error_message = "the password must not be in the plan"
  }
  assert {
    condition     = !aws_db_instance.this.skip_final_snapshot && aws_db_instance.this.final_snapshot_identifier == "limits-test-rules-final"
    error_message = "want a last snapshot"
  }
}

run "logs_are_exported_to_groups_that_expire" {
  command = plan
  assert {
    condition     = aws_db_instance.this.enabled_cloudwatch_logs_exports == toset(["postgresql", "upgrade"])
    error_message = "exports: ${jsonencode(aws_db_instance.this.enabled_cloudwatch_logs_exports)}"
  }
}

run "a_replica_has_its_sources_users" {
  command = plan
  variables {
    replicate_source_db_arn = "arn:aws:rds:us-east-1:123456789012:db:limits-us-east-rules"
  }
  assert {
    condition     = length(aws_secretsmanager_secret.master) == 0 && aws_db_instance.this.password_wo_version == null && aws_db_instance.this.replicate_source_db != null
    error_message = "want a replica without a master user of its own"
  }
  assert {
    condition     = output.master_secret_arn == null
    error_message = "a replica has no secret"
  }
}

run "a_higher_version_is_a_new_password_in_both_places" {
  command = plan
  variables {
    master_password_version = 2
  }
  assert {
    condition     = aws_db_instance.this.password_wo_version == 2 && aws_secretsmanager_secret_version.master["home"].secret_string_wo_version == 2
    error_message = "database and secret must change together"
  }
}

run "refuses_a_cluster_as_source" {
  command = plan
  variables {
    replicate_source_db_arn = "arn:aws:rds:us-east-1:123456789012:cluster:rules"
  }
  expect_failures = [var.replicate_source_db_arn]
}

run "refuses_an_unknown_class" {
  command = plan
  variables {
    instance_class = "db.m7g.huge"
  }
  expect_failures = [var.instance_class]
}

run "refuses_version_zero" {
  command = plan
  variables {
    master_password_version = 0
  }
  expect_failures = [var.master_password_version]
}

run "refuses_to_keep_no_backup" {
  command = plan
  variables {
    backup_retention_days = 0
  }
  expect_failures = [var.backup_retention_days]
}

run "refuses_a_backup_on_a_weekday" {
  command = plan
  variables {
    backup_window = "sun:02:00-sun:03:00"
  }
  expect_failures = [var.backup_window]
}

run "refuses_a_maintenance_of_ten_minutes" {
  command = plan
  variables {
    maintenance_window = "sun:03:30-sun:03:40"
  }
  expect_failures = [var.maintenance_window]
}

run "refuses_one_subnet" {
  command = plan
  variables {
    subnet_ids = ["subnet-a"]
  }
  expect_failures = [var.subnet_ids]
}
