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
    key          = "shiplane-limits/ap-south.tfstate"
    encrypt      = true
    use_lockfile = true
  }
}

provider "aws" {
  region = "ap-south-1"

  default_tags {
    tags = {
      project = "shiplane-limits"
      region  = local.region
    }
  }
}
