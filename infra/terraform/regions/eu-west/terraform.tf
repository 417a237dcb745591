terraform {
  required_version = ">= 1.11"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.66"
    }
  }

  # The rest is in a file of yours: terraform init -backend-config=FILE (see the README).
  backend "s3" {
    key          = "shiplane-limits/eu-west.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}

provider "aws" {
  region = "eu-west-1"

  default_tags {
    tags = {
      project = "shiplane-limits"
      region  = local.region
    }
  }
}
