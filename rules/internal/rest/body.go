package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/shiplane/limits/libs/ruleset"
)

// bodyMax bounds a body, in bytes: a route class of 64 long patterns has some 20
// KiB, a rule 1 KiB.
const bodyMax = 64 << 10

// readBody reads the body into the request. Faults are what can be read and is
// wrong; an error what cannot be read.
func (o *operation) readBody(q proto.Message, w http.ResponseWriter, r *http.Request) ([]violation, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, problemf(http.StatusRequestEntityTooLarge, codeBodyTooLarge, "the body has more than %d bytes", bodyMax)
	case err != nil:
		return nil, problemf(http.StatusBadRequest, codeBadRequest, "the body ended early")
	case o.body == "" && len(body) > 0:
		return nil, problemf(http.StatusBadRequest, codeBadRequest, "the request has a body of %d bytes: want none here", len(body))
	case o.body == "":
		return nil, nil
	}
	if err := mediaType(r.Header); err != nil {
		return nil, err
	}
	if err := wellFormed(body); err != nil {
		return nil, err
	}
	item, prefix := q.ProtoReflect(), ""
	if o.body != "." {
		item, prefix = item.Mutable(item.Descriptor().Fields().ByName(protoreflect.Name(o.body))).Message(), o.body+"."
	}
	return o.readItem(item, prefix, body), nil
}

// readItem reads what a body writes, and holds its id to that of the path.
func (o *operation) readItem(item protoreflect.Message, prefix string, body []byte) []violation {
	inPath, nested := "", strings.HasPrefix(o.id, prefix) && prefix != ""
	id := item.Descriptor().Fields().ByName("id")
	if nested {
		inPath = item.Get(id).String()
		item.Clear(id)
	}
	var wrong []violation
	for _, f := range ruleset.ReadItem(body, item.Interface()) {
		wrong = append(wrong, violation{strings.TrimSuffix(prefix+f.Path, "."), f.Value, f.Problem})
	}
	if !nested {
		return wrong
	}
	if inBody := item.Get(id).String(); inBody != "" && inBody != inPath {
		wrong = append(wrong, violation{prefix + "id", shown(inBody), "want " + shown(inPath) + ", as in the path, or none"})
	}
	item.Set(id, protoreflect.ValueOfString(inPath))
	return wrong
}

// mediaType holds a body to the only type and coding that is read.
func mediaType(h http.Header) error {
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset, said := parameters["charset"]
	if err != nil || media != "application/json" || said && !strings.EqualFold(charset, "utf-8") {
		return problemf(http.StatusUnsupportedMediaType, codeMediaType, "the body is of type %s: want application/json", shown(h.Get("Content-Type")))
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return problemf(http.StatusUnsupportedMediaType, codeMediaType, "the body has the coding %s: want none", shown(coding))
	}
	return nil
}

// wellFormed reports a body that is no object of JSON, with the place.
func wellFormed(body []byte) error {
	var whole json.RawMessage
	var syntax *json.SyntaxError
	err := json.Unmarshal(body, &whole)
	switch {
	case !utf8.Valid(body):
		return problemf(http.StatusBadRequest, codeBadRequest, "the body is not UTF-8")
	case errors.As(err, &syntax):
		return problemf(http.StatusBadRequest, codeBadRequest, "the body is no JSON: after %d bytes: %v", syntax.Offset, syntax)
	case err != nil || bytes.TrimLeft(whole, " \t\r\n")[0] != '{':
		return problemf(http.StatusBadRequest, codeBadRequest, "the body is no JSON object")
	}
	return nil
}
