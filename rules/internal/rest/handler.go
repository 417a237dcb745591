package rest

import (
	"context"
	_ "embed"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// document is what the API is, for programs. Its test makes it from the table and
// the contract.
//
//go:embed openapi.json
var document []byte

// documentPath is where it is served.
const documentPath = "/v1/openapi.json"

// Handler serves the paths below /v1/. It is safe for concurrent use.
type Handler struct{ operations []operation }

// New makes the handler of a service, whose errors are those of connect with a
// Problem in their details. Who calls is the service's to know, by the context.
func New(s rulesv1.RulesServiceHandler) *Handler { return &Handler{operations(s)} }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		Refuse(w, r, err)
	}
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	path, method := r.URL.EscapedPath(), r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server leaves the body out
	}
	if path == documentPath {
		r.Pattern = documentPath
		return serveDocument(w, method)
	}
	var allowed []string
	for i := range h.operations {
		o := &h.operations[i]
		id, ok := o.match(path)
		if ok && o.method == method {
			r.Pattern = o.method + " " + o.path // telemetry.HTTPSpans names the span by it
			return o.serve(w, r, id)
		}
		if ok {
			allowed = append(allowed, o.method)
		}
	}
	if allowed != nil {
		return wrongMethod(w, allowed)
	}
	return problemf(http.StatusNotFound, codeNotFound, "there is nothing at this path; %s lists what there is", documentPath)
}

func serveDocument(w http.ResponseWriter, method string) error {
	if method != http.MethodGet {
		return wrongMethod(w, []string{http.MethodGet})
	}
	send(w, http.StatusOK, document)
	return nil
}

func wrongMethod(w http.ResponseWriter, allowed []string) error {
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	list := strings.Join(allowed, ", ")
	w.Header().Set("Allow", list)
	return problemf(http.StatusMethodNotAllowed, codeMethodNotAllowed, "want one of the methods %s", list)
}

// match reports whether an escaped path is the operation's, and what stands for
// {id}. Of an id a slash or a colon is part only if it is escaped.
func (o *operation) match(path string) (id string, ok bool) {
	before, after, hasID := strings.Cut(o.path, "{id}")
	if !hasID {
		return "", path == o.path
	}
	id, ok = strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	id, ok = strings.CutSuffix(id, after)
	if !ok || id == "" || strings.ContainsAny(id, "/:") {
		return "", false
	}
	id, err := url.PathUnescape(id)
	return id, err == nil
}

// serve answers a request whose path and method are the operation's.
func (o *operation) serve(w http.ResponseWriter, r *http.Request, id string) error {
	q := o.create()
	if err := o.bind(q, r.URL.RawQuery, id); err != nil {
		return err
	}
	faults, err := o.readBody(q, w, r)
	if err != nil {
		return err
	}
	if err := o.expect(r, q, id); err != nil {
		return err
	}
	a, err := o.ask(r.Context(), q, faults)
	if err != nil {
		return err
	}
	return o.answerTo(w, r, q, a)
}

// ask makes the call. Where the body had faults it only lets the call check what
// could be read, so that all that is wrong is said at once; and so that who may
// not write learns that first.
func (o *operation) ask(ctx context.Context, q proto.Message, faults []violation) (proto.Message, error) {
	if len(faults) == 0 {
		return o.call(ctx, q)
	}
	write := writeOf(q)
	if write == nil {
		return nil, invalid(http.StatusBadRequest, codeBadRequest, faults)
	}
	write.ValidateOnly = true
	_, err := o.call(ctx, q)
	if err == nil {
		return nil, invalid(http.StatusUnprocessableEntity, codeInvalidRule, faults)
	}
	found := problemOf(err)
	if found.Code != codeInvalidRule {
		return nil, err
	}
	return nil, invalid(http.StatusUnprocessableEntity, codeInvalidRule, merge(faults, found.Violations))
}
