package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shiplane/limits/libs/ruleset"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// answerTo sends what a call answered.
func (o *operation) answerTo(w http.ResponseWriter, r *http.Request, q, a proto.Message) error {
	if o.shows != "" {
		return o.show(w, r, q, a)
	}
	write, status := writeOf(q), o.status
	if version := versionOf(a); version > 0 && !write.GetValidateOnly() {
		w.Header().Set("ETag", etag(version))
	}
	switch {
	case write.GetValidateOnly():
		status = http.StatusOK
	case underWay(a):
		status = http.StatusAccepted
	case o.method == http.MethodPut && write.GetExpectedVersion() == 0:
		status = http.StatusCreated
	}
	if made, ok := a.(*rulesv1.CreateOverrideResponse); ok && status == http.StatusCreated {
		w.Header().Set("Location", o.path+"/"+made.GetOverride().GetId()+domainQuery(q))
	}
	send(w, status, withEmptyLists(a))
	return nil
}

// withEmptyLists writes an answer, a list without entries too: whoever goes
// through the rules of an answer finds a list.
func withEmptyLists(a proto.Message) []byte {
	text, m := ruleset.WriteItem(a), a.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if !f.IsList() || m.Has(f) {
			continue
		}
		comma := ","
		if text[1] == '}' {
			comma = ""
		}
		text = append(fmt.Appendf(nil, `{%q:[]%s`, f.Name(), comma), text[1:]...)
	}
	return text
}

// show sends one item, or that its reader has it already.
func (o *operation) show(w http.ResponseWriter, r *http.Request, q, a proto.Message) error {
	_, none, err := conditions(r)
	if err != nil {
		return err
	}
	if got, ok := a.(*rulesv1.GetRuleResponse); ok && got.GetRollout() != nil {
		id := got.GetRollout().GetRule().GetId()
		w.Header().Set("Link", "<"+rolloutsOf(id, q)+`>; rel="related"`)
		if got.GetRule() == nil {
			return problemf(http.StatusNotFound, codeNotFound, "rule %s is not in force yet: its first rollout is under way, see %s", shown(id), rolloutsOf(id, q))
		}
	}
	version := versionOf(a)
	if version > 0 {
		w.Header().Set("ETag", etag(version))
		w.Header().Set("Cache-Control", "private, no-cache") // may be kept, must be asked for again
	}
	if none.any || version > 0 && none.weakly(version) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	m := a.ProtoReflect()
	item := m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(o.shows))).Message()
	send(w, http.StatusOK, ruleset.WriteItem(item.Interface()))
	return nil
}

// rolloutsOf is where the rollout of a rule is shown.
func rolloutsOf(id string, q proto.Message) string {
	query := url.Values{"rule": {id}, "active": {"true"}}
	if domain := domainOf(q); domain != "" {
		query.Set("domain", domain)
	}
	return "/v1/rollouts?" + query.Encode()
}

// domainQuery repeats the domain of a request in the address of what it made.
func domainQuery(q proto.Message) string {
	if domain := domainOf(q); domain != "" {
		return "?domain=" + url.QueryEscape(domain)
	}
	return ""
}

// versionOf returns the version of the one item that an answer is about, 0 for
// none.
func versionOf(a proto.Message) int64 {
	switch a := a.(type) {
	case *rulesv1.GetRuleResponse:
		return a.GetRule().GetVersion() // of what is shown, not of an edit on its way
	case interface{ GetRule() *rulesv1.Rule }:
		return a.GetRule().GetVersion()
	case interface{ GetRoute() *rulesv1.Route }:
		return a.GetRoute().GetVersion()
	case interface{ GetRollout() *rulesv1.Rollout }:
		return a.GetRollout().GetRule().GetVersion()
	}
	return 0
}

// underWay reports whether a write has only begun: the rule is what it will be,
// if its rollout ends well.
func underWay(a proto.Message) bool {
	edit, ok := a.(interface {
		GetRule() *rulesv1.Rule
		GetRollout() *rulesv1.Rollout
	})
	if !ok {
		return false
	}
	state := edit.GetRollout().GetState()
	return state == rulesv1.RolloutState_ROLLOUT_STATE_SHADOW || state == rulesv1.RolloutState_ROLLOUT_STATE_CANARY
}

func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error of the connection is the server's to notice
}
