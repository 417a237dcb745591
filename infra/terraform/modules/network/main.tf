# A region's private network: one subnet a zone for pods and one for data. Nothing in it has a public address, and the
# data subnets have no route out. Whoever runs the cluster gives the pods' route tables a way out (a NAT or transit gateway).

locals {
  zones = { for i, zone in var.zones : zone => i }
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_hostnames = true
  enable_dns_support   = true
  tags                 = { Name = var.name }
}

# Adopted in order to be emptied: what forgets to name a security group gets one that lets nothing through.
resource "aws_default_security_group" "closed" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-closed" }
}

resource "aws_subnet" "pods" {
  for_each = local.zones

  vpc_id                  = aws_vpc.this.id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.cidr, 3, each.value) # of a /16: 8,187 addresses
  map_public_ip_on_launch = false
  tags                    = { Name = "${var.name}-pods-${each.key}" }
}

resource "aws_subnet" "data" {
  for_each = local.zones

  vpc_id                  = aws_vpc.this.id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.cidr, 8, 224 + each.value) # the last eighth, clear of the pods'
  map_public_ip_on_launch = false
  tags                    = { Name = "${var.name}-data-${each.key}" }
}

resource "aws_route_table" "pods" {
  for_each = local.zones

  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-pods-${each.key}" }
}

resource "aws_route_table_association" "pods" {
  for_each = local.zones

  subnet_id      = aws_subnet.pods[each.key].id
  route_table_id = aws_route_table.pods[each.key].id
}

resource "aws_route_table" "data" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-data" }
}

resource "aws_route_table_association" "data" {
  for_each = local.zones

  subnet_id      = aws_subnet.data[each.key].id
  route_table_id = aws_route_table.data.id
}

# Carried by gateways and checkers, and by the rules service: the counters and the rules let in who carries one.
resource "aws_security_group" "limiter" {
  name        = "${var.name}-limiter"
  description = "Gateways and checkers of ${var.name}"
  vpc_id      = aws_vpc.this.id
  tags        = { Name = "${var.name}-limiter" }
}

resource "aws_security_group" "rules" {
  name        = "${var.name}-rules"
  description = "The rules service of ${var.name}"
  vpc_id      = aws_vpc.this.id
  tags        = { Name = "${var.name}-rules" }
}

resource "aws_cloudwatch_log_group" "flow" {
  name              = "/shiplane/${var.name}/flow"
  retention_in_days = var.log_retention_days
}

resource "aws_flow_log" "rejected" {
  vpc_id          = aws_vpc.this.id
  traffic_type    = "REJECT" # what is let through would cost more to keep than it tells
  log_destination = aws_cloudwatch_log_group.flow.arn
  iam_role_arn    = aws_iam_role.flow.arn
  tags            = { Name = "${var.name}-rejected" }
}

resource "aws_iam_role" "flow" {
  name = "${var.name}-flow-log"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "vpc-flow-logs.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "flow" {
  name = "write"
  role = aws_iam_role.flow.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
      Resource = [aws_cloudwatch_log_group.flow.arn, "${aws_cloudwatch_log_group.flow.arn}:*"]
    }]
  })
}
