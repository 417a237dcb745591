package edge

import (
	"net/http"
	"slices"

	"github.com/shiplane/limits/gateway/internal/identity"
	"github.com/shiplane/limits/gateway/internal/userfield"
	"github.com/shiplane/limits/libs/limit"
	"github.com/shiplane/limits/libs/ruleset"
)

// Charge is which of the requests are charged that are free unless asked: they
// fetch nothing, and browsers send preflights of their own accord. A free request
// meets its rules at a cost of 0: it shows what is left, and only a ban refuses it.
type Charge struct{ Head, Options, Preflight bool }

// overriding are fields by which a request can be another method's than it says,
// to upstreams that look at them, in whatever spelling. Such a request is never free.
var overriding = [...]string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"}

// Free reports whether a request of a route costs nothing. On one that counts by
// user it does only if it can name none: some servers take a login by any method.
func (c Charge) Free(r *http.Request, route *ruleset.Route) bool {
	charged := true
	switch {
	case isPreflight(r):
		charged = c.Preflight
	case r.Method == http.MethodOptions:
		charged = c.Options
	case r.Method == http.MethodHead:
		charged = c.Head
	}
	if charged {
		return false
	}
	for name := range r.Header {
		if slices.Contains(overriding[:], identity.Dashed(name)) {
			return false
		}
	}
	return route.UserField == "" || userfield.Absent(r, route.UserField)
}

// isPreflight reports whether a browser asks if a script may send a request
// (Fetch, 4.8). It never holds credentials.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// Price sets what each of the rules that a request meets is charged: nothing if it
// is free, else what its route costs.
func (c Charge) Price(r *http.Request, route *ruleset.Route, charges []limit.Charge) {
	if c.Free(r, route) {
		for i := range charges {
			charges[i].Cost = 0
		}
	}
}

// PriceRefused sets what a request is charged that will be refused for who sent it:
// at least 1, by whatever method and also on a route that costs nothing, for keys can
// be tried there, too.
func PriceRefused(cost int64, charges []limit.Charge) {
	for i := range charges {
		charges[i].Cost = charges[i].Rule.Charge(max(cost, 1))
	}
}
