package rest

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/book"
)

// broken is a service that answers every read of rules with one error.
type broken struct {
	rulesv1.UnimplementedRulesServiceHandler
	err error
}

func (b *broken) ListRules(context.Context, *rulesv1.ListRulesRequest) (*rulesv1.ListRulesResponse, error) {
	return nil, b.err
}

func failure(t *testing.T, code connect.Code, p *rulesv1.Problem) *connect.Error {
	t.Helper()
	err := connect.NewError(code, errors.New("it cannot be"))
	if p != nil {
		detail, wrong := connect.NewErrorDetail(p)
		if wrong != nil {
			t.Fatal(wrong)
		}
		err.AddDetail(detail)
	}
	return err
}

// Every error of the service is a problem with its code and status, and no text
// of an error that was not meant for callers gets out.
func TestErrorsAreProblems(t *testing.T) {
	void := failure(t, connect.CodeUnauthenticated, nil)
	void.Meta().Set("WWW-Authenticate", "Bearer")
	for _, c := range []struct {
		err    error
		status int
		code   string
		field  string // a header field that must be there
	}{
		{failure(t, connect.CodeInvalidArgument, &rulesv1.Problem{Code: book.CodeBadRequest}), 400, "bad_request", ""},
		{failure(t, connect.CodeNotFound, &rulesv1.Problem{Code: book.CodeNotFound}), 404, "not_found", ""},
		{failure(t, connect.CodeAborted, &rulesv1.Problem{Code: book.CodeVersionConflict, CurrentVersion: 7}), 409, "version_conflict", "ETag"},
		{failure(t, connect.CodeAborted, &rulesv1.Problem{Code: book.CodeRolloutInProgress}), 409, "rollout_in_progress", ""},
		{failure(t, connect.CodeFailedPrecondition, &rulesv1.Problem{Code: book.CodeInvalidRule}), 422, "invalid_rule", ""},
		{failure(t, connect.CodeFailedPrecondition, &rulesv1.Problem{Code: book.CodePreconditionRequired}), 428, "precondition_required", ""},
		{failure(t, connect.CodeUnavailable, &rulesv1.Problem{Code: book.CodeUnavailable}), 503, "unavailable", "Retry-After"},
		{failure(t, connect.CodeUnavailable, nil), 503, "unavailable", "Retry-After"},
		{void, 401, "unauthenticated", "WWW-Authenticate"},
		{failure(t, connect.CodePermissionDenied, nil), 403, "permission_denied", ""},
		{failure(t, connect.CodeDeadlineExceeded, nil), 504, "timeout", ""},
		{failure(t, connect.CodeInternal, nil), 500, "internal", ""},
		{failure(t, connect.CodeUnimplemented, nil), 500, "internal", ""},
		{failure(t, connect.CodeAborted, &rulesv1.Problem{Code: "a new one"}), 500, "internal", ""},
		{errors.New("password=hunter2"), 500, "internal", ""},
	} {
		a := newAPI(t, &broken{err: c.err})
		got := a.want(t, c.status, http.MethodGet, "/v1/rules", "")
		p := got.problem(t)
		if p.Code != c.code || c.field != "" && got.header.Get(c.field) == "" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%v: %s, %v", c.err, got.text, got.header)
		}
		if p.Detail == "" || p.Detail == "password=hunter2" {
			t.Errorf("%v: detail %q", c.err, p.Detail)
		}
	}
}
