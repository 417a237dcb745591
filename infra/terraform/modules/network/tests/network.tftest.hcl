variables {
  name  = "limits-test"
  cidr  = "10.64.0.0/16"
  zones = ["us-east-1a", "us-east-1b", "us-east-1c"]
}

run "subnets_do_not_overlap" {
  command = plan

  assert {
    condition     = [for s in aws_subnet.pods : s.cidr_block] == ["10.64.0.0/19", "10.64.32.0/19", "10.64.64.0/19"]
    error_message = "pods: want eighths from the front, got ${jsonencode([for s in aws_subnet.pods : s.cidr_block])}"
  }
  assert {
    condition     = [for s in aws_subnet.data : s.cidr_block] == ["10.64.224.0/24", "10.64.225.0/24", "10.64.226.0/24"]
    error_message = "data: want the last eighth, got ${jsonencode([for s in aws_subnet.data : s.cidr_block])}"
  }
}

run "six_zones_fit_beside_the_data" {
  command = plan
  variables {
    zones = ["a", "b", "c", "d", "e", "f"]
  }
  assert {
    condition     = aws_subnet.pods["f"].cidr_block == "10.64.160.0/19" && aws_subnet.data["f"].cidr_block == "10.64.229.0/24"
    error_message = "the sixth zone is outside"
  }
}

run "refuses_one_zone" {
  command = plan
  variables {
    zones = ["us-east-1a"]
  }
  expect_failures = [var.zones]
}

run "refuses_a_zone_twice" {
  command = plan
  variables {
    zones = ["us-east-1a", "us-east-1a"]
  }
  expect_failures = [var.zones]
}

run "refuses_a_public_network" {
  command = plan
  variables {
    cidr = "52.1.0.0/16"
  }
  expect_failures = [var.cidr]
}

run "refuses_host_bits" {
  command = plan
  variables {
    cidr = "10.64.1.0/16"
  }
  expect_failures = [var.cidr]
}

run "refuses_a_bad_name" {
  command = plan
  variables {
    name = "Limits--test"
  }
  expect_failures = [var.name]
}

run "refuses_a_retention_that_cloudwatch_has_not" {
  command = plan
  variables {
    log_retention_days = 31
  }
  expect_failures = [var.log_retention_days]
}
