package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// server answers Terraform. Safe for concurrent use once it is configured, which
// happens before anything is planned.
type server struct {
	tfprotov5.ProviderServer // what is not answered below is never asked
	*schemas
	region string
}

func (s *server) GetMetadata(context.Context, *tfprotov5.GetMetadataRequest) (*tfprotov5.GetMetadataResponse, error) {
	r := &tfprotov5.GetMetadataResponse{ServerCapabilities: &tfprotov5.ServerCapabilities{}}
	for name := range s.resources {
		r.Resources = append(r.Resources, tfprotov5.ResourceMetadata{TypeName: name})
	}
	for name := range s.ephemeral {
		r.EphemeralResources = append(r.EphemeralResources, tfprotov5.EphemeralResourceMetadata{TypeName: name})
	}
	return r, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (*tfprotov5.GetProviderSchemaResponse, error) {
	return &tfprotov5.GetProviderSchemaResponse{
		Provider: s.provider, ResourceSchemas: s.resources, EphemeralResourceSchemas: s.ephemeral, ServerCapabilities: &tfprotov5.ServerCapabilities{},
	}, nil
}

func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov5.GetResourceIdentitySchemasRequest) (*tfprotov5.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov5.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) GetFunctions(context.Context, *tfprotov5.GetFunctionsRequest) (*tfprotov5.GetFunctionsResponse, error) {
	return &tfprotov5.GetFunctionsResponse{}, nil
}

func (s *server) PrepareProviderConfig(_ context.Context, r *tfprotov5.PrepareProviderConfigRequest) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *server) ConfigureProvider(_ context.Context, r *tfprotov5.ConfigureProviderRequest) (*tfprotov5.ConfigureProviderResponse, error) {
	config, err := r.Config.Unmarshal(s.provider.ValueType())
	if err != nil {
		return nil, err
	}
	var values map[string]tftypes.Value
	if err := config.As(&values); err != nil {
		return nil, err
	}
	s.region = "us-east-1" // where a test configures none
	if region := values["region"]; region.IsKnown() && !region.IsNull() {
		err = region.As(&s.region)
	}
	return &tfprotov5.ConfigureProviderResponse{}, err
}

func (s *server) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

// ValidateResourceTypeConfig refuses values of attributes that only the provider
// decides. Terraform itself has compared the rest with the schema.
func (s *server) ValidateResourceTypeConfig(_ context.Context, r *tfprotov5.ValidateResourceTypeConfigRequest) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	schema := s.resources[r.TypeName]
	config, err := r.Config.Unmarshal(schema.ValueType())
	if err != nil {
		return nil, err
	}
	out := &tfprotov5.ValidateResourceTypeConfigResponse{}
	err = tftypes.Walk(config, func(p *tftypes.AttributePath, v tftypes.Value) (bool, error) {
		if a := attributeAt(schema.Block, p.Steps()); a != nil && a.Computed && !a.Optional && !v.IsNull() {
			out.Diagnostics = append(out.Diagnostics, &tfprotov5.Diagnostic{
				Severity: tfprotov5.DiagnosticSeverityError, Attribute: p,
				Summary: "Value for unconfigurable attribute", Detail: fmt.Sprintf("%q is decided by the provider.", a.Name),
			})
		}
		return true, nil
	})
	return out, err
}

func (s *server) UpgradeResourceState(_ context.Context, r *tfprotov5.UpgradeResourceStateRequest) (*tfprotov5.UpgradeResourceStateResponse, error) {
	t := s.resources[r.TypeName].ValueType()
	state, err := r.RawState.Unmarshal(t)
	if err != nil {
		return nil, err
	}
	out, err := tfprotov5.NewDynamicValue(t, state)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &out}, err
}

// ReadResource finds everything as it was left.
func (s *server) ReadResource(_ context.Context, r *tfprotov5.ReadResourceRequest) (*tfprotov5.ReadResourceResponse, error) {
	return &tfprotov5.ReadResourceResponse{NewState: r.CurrentState, Private: r.Private}, nil
}

func (s *server) PlanResourceChange(_ context.Context, r *tfprotov5.PlanResourceChangeRequest) (*tfprotov5.PlanResourceChangeResponse, error) {
	planned, err := decide(s.resources[r.TypeName], r.ProposedNewState, func(tftypes.Value) decider {
		return func(_ string, t tftypes.Type) tftypes.Value { return tftypes.NewValue(t, tftypes.UnknownValue) }
	})
	return &tfprotov5.PlanResourceChangeResponse{PlannedState: planned}, err
}

func (s *server) ApplyResourceChange(_ context.Context, r *tfprotov5.ApplyResourceChangeRequest) (*tfprotov5.ApplyResourceChangeResponse, error) {
	made, err := decide(s.resources[r.TypeName], r.PlannedState, func(of tftypes.Value) decider { return s.madeUp(r.TypeName, of) })
	return &tfprotov5.ApplyResourceChangeResponse{NewState: made}, err
}

func (s *server) ValidateEphemeralResourceConfig(context.Context, *tfprotov5.ValidateEphemeralResourceConfigRequest) (*tfprotov5.ValidateEphemeralResourceConfigResponse, error) {
	return &tfprotov5.ValidateEphemeralResourceConfigResponse{}, nil
}

func (s *server) OpenEphemeralResource(_ context.Context, r *tfprotov5.OpenEphemeralResourceRequest) (*tfprotov5.OpenEphemeralResourceResponse, error) {
	made, err := decide(s.ephemeral[r.TypeName], r.Config, func(of tftypes.Value) decider { return s.madeUp(r.TypeName, of) })
	return &tfprotov5.OpenEphemeralResourceResponse{Result: made}, err
}

func (s *server) CloseEphemeralResource(context.Context, *tfprotov5.CloseEphemeralResourceRequest) (*tfprotov5.CloseEphemeralResourceResponse, error) {
	return &tfprotov5.CloseEphemeralResourceResponse{}, nil
}
