package service

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/libs/store/members"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// errRoster is what a caller hears of a roster that is away: the log and the metrics
// of the store tell more.
var errRoster = errors.New("store_unavailable: the pods of the region could not be counted")

// Join implements CheckService.
func (s *Service) Join(ctx context.Context, q *checkv1.JoinRequest) (*checkv1.JoinResponse, error) {
	if err := s.podOnly(ctx); err != nil {
		return nil, err
	}
	if err := members.ValidatePod(q.GetPod()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	live, err := s.roster.Beat(ctx, q.GetPod(), !q.GetLeaves())
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, errRoster)
	}
	return &checkv1.JoinResponse{Pods: int32(live)}, nil //nolint:gosec // pods of a region
}
