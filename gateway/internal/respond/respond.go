// Package respond writes the responses that the gateway gives itself, instead of
// the upstream: in the form that the caller reads (problem+json, gRPC, or an
// operator's template), and readable for scripts of the origins that may.
package respond

import (
	"net/http"
	"strconv"

	"github.com/rs/cors"

	"github.com/shiplane/limits/libs/httplimit"
)

// CodeInvalidToken is the code of a 401 for a token that does not hold, and what a
// challenge calls it (RFC 6750, 3.1).
const CodeInvalidToken = "invalid_token"

// challenge says how to do better than a 401, which has to.
const challenge = `Bearer realm="shiplane"`

// Writer writes answers. The zero Writer is ready. Safe for concurrent use.
type Writer struct {
	Denied *httplimit.Body // of a 429; nil is problem+json

	origins *cors.Cors
}

// New makes a writer. Scripts of these origins may read its answers, with
// credentials if the origin is named, without if it is "*". The upstream's own
// responses, preflights among them, are the upstream's to open.
func New(denied *httplimit.Body, origins []string) *Writer {
	w := &Writer{Denied: denied}
	if len(origins) > 0 {
		w.origins = cors.New(cors.Options{
			AllowedOrigins:   origins,
			AllowCredentials: len(origins) > 1 || origins[0] != "*",
			AllowedMethods: []string{
				http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
			},
		})
	}
	return w
}

// Write sends a problem with the fields of a decision, nil if there was none.
// Header fields set before stay.
func (a *Writer) Write(w http.ResponseWriter, r *http.Request, p *httplimit.Problem, fields *httplimit.Fields) {
	h := w.Header()
	if a.origins != nil && !preflight(r) {
		a.origins.HandlerFunc(w, r)
	}
	var all httplimit.Fields
	if fields != nil {
		all = *fields
	}
	if p.RetryAfter > 0 && all.RetryAfter == "" {
		all.RetryAfter = strconv.FormatInt(p.RetryAfter, 10)
	}
	all.Set(h)
	if p.Status == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		text := challenge
		if p.Code == CodeInvalidToken {
			text += `, error="` + CodeInvalidToken + `"`
		}
		h.Set("WWW-Authenticate", text)
	}
	p.Answer(w, r, a.Denied)
}

// preflight reports what rs/cors would answer as a whole.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}
