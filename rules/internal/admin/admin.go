// Package admin is RulesService as its callers see it: who may call what, and
// what an error looks like. What a call does is the book's to decide.
package admin

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/auth"
	"github.com/shiplane/limits/rules/internal/book"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Service implements RulesService for callers whose Principal is in the context
// (auth.Middleware). Safe for concurrent use.
type Service struct {
	book *book.Book
	keys *auth.Keyring
	log  *slog.Logger
}

// New makes the service. log is told of faults of our own.
func New(b *book.Book, keys *auth.Keyring, log *slog.Logger) *Service {
	return &Service{book: b, keys: keys, log: log}
}

var _ rulesv1.RulesServiceHandler = (*Service)(nil)

// read lets viewers call.
func read[Q, A any](ctx context.Context, s *Service, q *Q, call func(context.Context, *Q) (*A, error)) (*A, error) {
	if _, err := auth.Need(ctx, rulesv1.Role_ROLE_VIEWER); err != nil {
		return nil, err
	}
	a, err := call(ctx, q)
	return a, s.failure(err)
}

// write lets editors call, under the name of their token.
func write[Q, A any](ctx context.Context, s *Service, q *Q, call func(context.Context, string, *Q) (*A, error)) (*A, error) {
	p, err := auth.Need(ctx, rulesv1.Role_ROLE_EDITOR)
	if err != nil {
		return nil, err
	}
	a, err := call(ctx, p.Name, q)
	return a, s.failure(err)
}

// codes are what the book's problems are in Connect.
var codes = map[string]connect.Code{
	book.CodeBadRequest:           connect.CodeInvalidArgument,
	book.CodeNotFound:             connect.CodeNotFound,
	book.CodeVersionConflict:      connect.CodeAborted,
	book.CodeRolloutInProgress:    connect.CodeAborted,
	book.CodePreconditionRequired: connect.CodeFailedPrecondition,
	book.CodeInvalidRule:          connect.CodeFailedPrecondition,
	book.CodeUnavailable:          connect.CodeUnavailable,
}

// failure makes an error one of Connect, with a Problem in its details. Of a fault
// of our own the caller learns that it is one; the log learns the rest.
func (s *Service) failure(err error) error {
	if err == nil {
		return nil
	}
	var problem *book.Problem
	var field *auth.FieldError
	switch {
	case errors.As(err, &problem):
	case errors.As(err, &field):
		problem = &book.Problem{Code: book.CodeBadRequest, Detail: field.Error(), Violations: []*rulesv1.Violation{{Field: field.Field, Value: field.Value, Problem: field.Problem}}}
	case errors.Is(err, ledger.ErrNotFound):
		problem = &book.Problem{Code: book.CodeNotFound, Detail: "there is no such thing"}
	case errors.Is(err, ledger.ErrUnavailable):
		problem = &book.Problem{Code: book.CodeUnavailable, Detail: "the rules store cannot be reached at the moment; the rules in force stay in force"}
		s.log.Warn("a call failed", "error", err)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	default:
		s.log.Error("a call failed", "error", err)
		return connect.NewError(connect.CodeInternal, errors.New("an internal error; the log of the rules service tells more"))
	}
	code, ok := codes[problem.Code]
	if !ok {
		code = connect.CodeInternal
	}
	failure := connect.NewError(code, errors.New(problem.Detail))
	detail, err := connect.NewErrorDetail(&rulesv1.Problem{Code: problem.Code, Violations: problem.Violations, CurrentVersion: problem.Current})
	if err != nil { // a message always marshals, but for texts that are not UTF-8
		s.log.Error("the details of a problem", "error", err)
		return failure
	}
	failure.AddDetail(detail)
	return failure
}

// CreateToken implements RulesService.
func (s *Service) CreateToken(ctx context.Context, q *rulesv1.CreateTokenRequest) (*rulesv1.CreateTokenResponse, error) {
	p, err := auth.Need(ctx, rulesv1.Role_ROLE_ADMIN)
	if err != nil {
		return nil, err
	}
	t, secret, err := s.keys.Create(ctx, q.GetName(), q.GetRole(), q.GetLifetime().AsDuration())
	if err != nil {
		return nil, s.failure(err)
	}
	s.log.Info("a token was made", "by", p.Name, "id", t.ID, "name", t.Name, "role", t.Role.String())
	return &rulesv1.CreateTokenResponse{Token: shown(t), Secret: secret}, nil
}

// ListTokens implements RulesService.
func (s *Service) ListTokens(ctx context.Context, _ *rulesv1.ListTokensRequest) (*rulesv1.ListTokensResponse, error) {
	if _, err := auth.Need(ctx, rulesv1.Role_ROLE_ADMIN); err != nil {
		return nil, err
	}
	all, err := s.keys.List(ctx)
	if err != nil {
		return nil, s.failure(err)
	}
	answer := &rulesv1.ListTokensResponse{}
	for _, t := range all {
		answer.Tokens = append(answer.Tokens, shown(t))
	}
	return answer, nil
}

// RevokeToken implements RulesService.
func (s *Service) RevokeToken(ctx context.Context, q *rulesv1.RevokeTokenRequest) (*rulesv1.RevokeTokenResponse, error) {
	p, err := auth.Need(ctx, rulesv1.Role_ROLE_ADMIN)
	if err != nil {
		return nil, err
	}
	t, err := s.keys.Revoke(ctx, q.GetId())
	if err != nil {
		return nil, s.failure(err)
	}
	s.log.Info("a token was revoked", "by", p.Name, "id", t.ID, "name", t.Name)
	return &rulesv1.RevokeTokenResponse{Token: shown(t)}, nil
}

// shown is a token without its hash.
func shown(t *ledger.Token) *rulesv1.Token {
	stamp := func(at time.Time) *timestamppb.Timestamp {
		if at.IsZero() {
			return nil
		}
		return timestamppb.New(at)
	}
	return &rulesv1.Token{Id: t.ID, Name: t.Name, Role: t.Role, CreatedAt: stamp(t.CreatedAt), ExpiresAt: stamp(t.ExpiresAt), RevokedAt: stamp(t.RevokedAt)}
}
