package grpcserver

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// lookEvery is how often a watch looks whether the answer has changed.
const lookEvery = time.Second

// health answers for every service what /readyz says.
type health struct {
	healthv1.UnimplementedHealthServer
	ready    func() error
	draining <-chan struct{}
	known    func() map[string]grpc.ServiceInfo
}

// Check implements the health service.
func (h *health) Check(_ context.Context, q *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if !h.serves(q.GetService()) {
		return nil, status.Errorf(codes.NotFound, "there is no service %.100q", q.GetService())
	}
	return &healthv1.HealthCheckResponse{Status: h.status()}, nil
}

// Watch implements the health service. It ends with the server's drain, which would
// wait for it.
func (h *health) Watch(q *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := healthv1.HealthCheckResponse_UNKNOWN
	for {
		now := healthv1.HealthCheckResponse_SERVICE_UNKNOWN
		if h.serves(q.GetService()) {
			now = h.status()
		}
		if now != told {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			told = now
		}
		select {
		case <-tick.C:
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-h.draining:
			return status.Error(codes.Unavailable, "the server ends")
		}
	}
}

func (h *health) serves(service string) bool {
	_, ok := h.known()[service]
	return ok || service == ""
}

func (h *health) status() healthv1.HealthCheckResponse_ServingStatus {
	if h.ready() != nil {
		return healthv1.HealthCheckResponse_NOT_SERVING
	}
	return healthv1.HealthCheckResponse_SERVING
}
