package book

import (
	"context"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// PutRoute creates or replaces a route class; see RulesService.
func (b *Book) PutRoute(ctx context.Context, author string, q *rulesv1.PutRouteRequest) (*rulesv1.PutRouteResponse, error) {
	if q.GetRoute() == nil {
		return nil, badField("route", nil, "is missing")
	}
	o, err := b.routeOrder(q.GetDomain(), author, q.GetWrite())
	if err != nil {
		return nil, err
	}
	response := &rulesv1.PutRouteResponse{}
	response.Revision, err = b.write(ctx, o, func(ctx context.Context, d *draft) error {
		route := proto.CloneOf(q.GetRoute())
		was := d.at.route(route.GetId())
		if err := d.expect(was.GetVersion()); err != nil {
			return err
		}
		if route.Version, err = d.nextVersion(ctx, rulesv1.Kind_KIND_ROUTE, route.GetId()); err != nil {
			return err
		}
		var before *rulesv1.Change
		if was != nil {
			before = putRoute(was)
		}
		d.add(ledger.ActionPut, d.write.GetWhy(), route.GetVersion(), putRoute(route), before)
		response.Route = route
		return nil
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// DeleteRoute deletes a route class; see RulesService.
func (b *Book) DeleteRoute(ctx context.Context, author string, q *rulesv1.DeleteRouteRequest) (*rulesv1.DeleteRouteResponse, error) {
	o, err := b.routeOrder(q.GetDomain(), author, q.GetWrite())
	if err != nil {
		return nil, err
	}
	revision, err := b.write(ctx, o, func(ctx context.Context, d *draft) error {
		was := d.at.route(q.GetId())
		if was == nil {
			return notFound("route class", q.GetId())
		}
		if err := d.expect(was.GetVersion()); err != nil {
			return err
		}
		version, err := d.nextVersion(ctx, rulesv1.Kind_KIND_ROUTE, q.GetId())
		if err != nil {
			return err
		}
		d.add(ledger.ActionDelete, d.write.GetWhy(), version, deletion(rulesv1.Kind_KIND_ROUTE, q.GetId()), putRoute(was))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &rulesv1.DeleteRouteResponse{Revision: revision}, nil
}

func (b *Book) routeOrder(domain, author string, w *rulesv1.Write) (order, error) {
	o, err := b.order(domain, author, w, "route")
	if err != nil {
		return order{}, err
	}
	return o, o.precondition()
}

func putRoute(r *rulesv1.Route) *rulesv1.Change {
	return &rulesv1.Change{Item: &rulesv1.Change_Route{Route: r}}
}
