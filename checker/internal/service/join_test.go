package service_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/shiplane/limits/checker/internal/service"
	"github.com/shiplane/limits/libs/store/members"
	checkv1 "github.com/shiplane/limits/proto/shiplane/check/v1"
)

// roster is one that may be away.
type roster struct {
	*members.Local
	err error
}

func (r *roster) Beat(ctx context.Context, pod string, alive bool) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	return r.Local.Beat(ctx, pod, alive)
}

// Pods are counted beside the checker while they live; nobody but a pod is, and what the
// roster fails by is not told.
func TestJoin(t *testing.T) {
	pods := &roster{Local: members.NewLocal()}
	var refusal error
	s := service.New(service.Config{Roster: pods, PodOnly: func(context.Context) error { return refusal }, Logger: slog.New(slog.DiscardHandler)})
	for _, c := range []struct {
		pod    string
		leaves bool
		want   int32
	}{{"a", false, 2}, {"b", false, 3}, {"a", true, 2}} {
		if r, err := s.Join(t.Context(), &checkv1.JoinRequest{Pod: c.pod, Leaves: c.leaves}); err != nil || r.GetPods() != c.want {
			t.Errorf("%+v: %v, %v", c, r, err)
		}
	}
	for _, pod := range []string{"", strings.Repeat("x", 254)} {
		if _, err := s.Join(t.Context(), &checkv1.JoinRequest{Pod: pod}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a name of %d bytes: %v", len(pod), err)
		}
	}
	pods.err = errors.New("secret address")
	if _, err := s.Join(t.Context(), &checkv1.JoinRequest{Pod: "a"}); connect.CodeOf(err) != connect.CodeUnavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("without a roster: %v", err)
	}
	refusal = connect.NewError(connect.CodePermissionDenied, errors.New("no pod"))
	if _, err := s.Join(t.Context(), &checkv1.JoinRequest{Pod: "c"}); connect.CodeOf(err) != connect.CodePermissionDenied || pods.Count() != 2 {
		t.Errorf("who is no pod: %v, %d live", err, pods.Count())
	}
}
