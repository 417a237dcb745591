package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("infra", flag.ContinueOnError)
	cli := flags.String("cli", "terraform", "Terraform or OpenTofu, 1.11 or later")
	provider := flags.String("provider", "bin/schemaprovider", "the provider to stand in for hashicorp/aws")
	schema := flags.String("schema", "", "its schema")
	source := flags.String("source", "infra/terraform", "what to verify")
	work := flags.String("work", "bin/infra", "folder for the copy, made anew; plans are left in plans/")
	if err := flags.Parse(args); err != nil {
		return err
	}
	t, err := prepare(*work, *source, *cli, *provider, *schema)
	if err != nil {
		return err
	}
	var failed []error
	for _, step := range []struct {
		name string
		do   func(context.Context, *tree) error
	}{
		{"fmt", formatted},
		{"init", initialized},
		{"validate", validated},
		{"test", tested},
		{"plan", planned},
		{"faults", faultsCaught},
		{"apply twice", appliedTwice},
		{"destroy", destroyRefused},
	} {
		fmt.Printf("--- %s\n", step.name)
		if err := step.do(ctx, t); err != nil {
			fmt.Println(err)
			failed = append(failed, fmt.Errorf("%s: failed", step.name))
		}
	}
	return errors.Join(failed...)
}

// regions are the roots in the order in which they are applied, with the variables
// that each needs.
func regions() []region {
	const source = "rules_source_arn=arn:aws:rds:us-east-1:123456789012:db:limits-us-east-rules"
	topic := func(where string) string {
		return "alarm_topic_arn=arn:aws:sns:" + where + ":123456789012:pages"
	}
	return []region{
		{"us-east", []string{topic("us-east-1")}},
		{"eu-west", []string{topic("eu-west-1"), source}},
		{"ap-south", []string{topic("ap-south-1"), source}},
	}
}

type region struct {
	name      string
	variables []string // NAME=VALUE
}

func (r region) folder() string { return filepath.Join("regions", r.name) }

func (r region) vars() []string {
	var args []string
	for _, v := range r.variables {
		args = append(args, "-var", v)
	}
	return args
}

func modules() []string {
	return []string{"modules/network", "modules/redis-cluster", "modules/rules-postgres", "modules/observability"}
}
