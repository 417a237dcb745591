package book

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// CreateOverride makes an exception; see RulesService. It needs a reason, its own
// or else the write's why: an exception that nobody can explain is one that nobody
// dares to end.
func (b *Book) CreateOverride(ctx context.Context, author string, q *rulesv1.CreateOverrideRequest) (*rulesv1.CreateOverrideResponse, error) {
	if q.GetOverride() == nil {
		return nil, badField("override", nil, "is missing")
	}
	o, err := b.order(q.GetDomain(), author, q.GetWrite(), "override")
	if err != nil {
		return nil, err
	}
	override := proto.CloneOf(q.GetOverride())
	override.Author = author
	override.Reason = cmp.Or(override.GetReason(), o.write.GetWhy())
	why := cmp.Or(o.write.GetWhy(), override.GetReason())
	if strings.TrimSpace(why) == "" {
		return nil, invalidField("override.reason", nil, "is missing: want why the exception is made, for whoever comes across it later")
	}
	revision, err := b.write(ctx, o, func(_ context.Context, d *draft) error {
		if end := override.GetExpiresAt(); end.IsValid() && !end.AsTime().After(d.tx.Now()) {
			return invalidField("override.expires_at", end.AsTime().Format(time.RFC3339), "is over already: want a time after now, or none")
		}
		override.Id = d.newOverrideID()
		d.add(ledger.ActionPut, why, 0, putOverride(override), nil)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.CreateOverrideResponse{Override: override, Revision: revision}, nil
}

// DeleteOverride ends an exception at once; see RulesService.
func (b *Book) DeleteOverride(ctx context.Context, author string, q *rulesv1.DeleteOverrideRequest) (*rulesv1.DeleteOverrideResponse, error) {
	o, err := b.order(q.GetDomain(), author, q.GetWrite(), "override")
	if err != nil {
		return nil, err
	}
	revision, err := b.write(ctx, o, func(_ context.Context, d *draft) error {
		was := d.at.override(q.GetId())
		if was == nil {
			return notFound("override", q.GetId())
		}
		d.add(ledger.ActionDelete, d.write.GetWhy(), 0, deletion(rulesv1.Kind_KIND_OVERRIDE, q.GetId()), putOverride(was))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.DeleteOverrideResponse{Revision: revision}, nil
}

// newOverrideID draws an id that no override has: 50 random bits.
func (d *draft) newOverrideID() string {
	for {
		id := "o-" + strings.ToLower(rand.Text()[:10])
		if d.at.override(id) == nil {
			return id
		}
	}
}

func putOverride(o *rulesv1.Override) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Override{Override: o}}
}
