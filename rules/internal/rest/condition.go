package rest

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// tagsMax bounds how many entity tags a condition may name: nobody has read more
// versions than one.
const tagsMax = 16

// condition is an If-Match or If-None-Match (RFC 9110, 13.1). Its zero value is
// an absent field.
type condition struct {
	any  bool // "*"
	tags []tag
}

// tag is an entity tag.
type tag struct {
	version int64 // 0 for a tag that no version has
	weak    bool
}

// present reports whether the field was sent.
func (c *condition) present() bool { return c.any || len(c.tags) > 0 }

// exactly returns the version of the only tag, if that is strong and one of ours.
func (c *condition) exactly() (int64, bool) {
	if c.any || len(c.tags) != 1 || c.tags[0].weak || c.tags[0].version == 0 {
		return 0, false
	}
	return c.tags[0].version, true
}

// strongly reports whether a version matches by the strong comparison, which no
// weak tag passes; weakly by the weak one.
func (c *condition) strongly(version int64) bool {
	return c.any || slices.Contains(c.tags, tag{version, false})
}

func (c *condition) weakly(version int64) bool {
	return c.strongly(version) || slices.Contains(c.tags, tag{version, true})
}

// parseCondition reads a field, all its lines.
func parseCondition(lines []string) (c condition, err error) {
	if len(lines) == 0 {
		return c, nil
	}
	rest := strings.Trim(strings.Join(lines, ","), " \t")
	if rest == "*" {
		return condition{any: true}, nil
	}
	for rest != "" {
		if rest[0] == ',' { // an empty element says nothing
			rest = strings.TrimLeft(rest[1:], " \t")
			continue
		}
		var t tag
		if t, rest, err = parseTag(rest); err != nil {
			return condition{}, err
		}
		if c.tags = append(c.tags, t); len(c.tags) > tagsMax {
			return condition{}, errors.New("names more than " + strconv.Itoa(tagsMax) + " versions")
		}
		if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != ',' {
			return condition{}, errWantTag
		}
	}
	if !c.present() {
		return condition{}, errWantTag
	}
	return c, nil
}

var errWantTag = errors.New(`want a version in quotes as ETag says it, as in "7", or *`)

// parseTag reads the entity tag that a text begins with.
func parseTag(from string) (t tag, rest string, err error) {
	rest, t.weak = strings.CutPrefix(from, "W/")
	rest, opened := strings.CutPrefix(rest, `"`)
	opaque, rest, closed := strings.Cut(rest, `"`)
	if !opened || !closed {
		return tag{}, "", errWantTag
	}
	for i := range len(opaque) {
		if c := opaque[i]; c <= ' ' || c == 0x7f { // etagc; what is above ASCII is obs-text
			return tag{}, "", errWantTag
		}
	}
	n, err := strconv.ParseInt(opaque, 10, 64)
	if err == nil && n > 0 && opaque == strconv.FormatInt(n, 10) {
		t.version = n
	}
	return t, rest, nil
}

// etag is the entity tag of a version.
func etag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// conditions reads both fields of a request.
func conditions(r *http.Request) (match, none condition, err error) {
	if match, err = parseCondition(r.Header.Values("If-Match")); err != nil {
		return match, none, problemf(http.StatusBadRequest, codeBadRequest, "If-Match: %v", err)
	}
	if none, err = parseCondition(r.Header.Values("If-None-Match")); err != nil {
		return match, none, problemf(http.StatusBadRequest, codeBadRequest, "If-None-Match: %v", err)
	}
	return match, none, nil
}

// expect puts into a write which version it expects. That one is missing is the
// service's to refuse.
func (o *operation) expect(r *http.Request, q proto.Message, id string) error {
	write := writeOf(q)
	if write == nil {
		return nil
	}
	match, none, err := conditions(r)
	switch {
	case err != nil:
		return err
	case !match.present() && !none.present():
		return nil
	case o.current == nil:
		return problemf(http.StatusBadRequest, codeBadRequest, "what this path writes has no versions: want neither If-Match nor If-None-Match")
	case match.present() && none.present():
		return problemf(http.StatusBadRequest, codeBadRequest, "want If-Match or If-None-Match, not both")
	case none.any:
		write.ExpectedVersion = new(int64)
		return nil
	case none.present():
		return problemf(http.StatusBadRequest, codeBadRequest, "If-None-Match: want * on a write, which says that there is none")
	}
	version, ok := match.exactly()
	if !ok {
		if version, err = o.current(r.Context(), domainOf(q), id); err != nil {
			return err
		}
		if !match.strongly(version) {
			return conflict(version)
		}
	}
	write.ExpectedVersion = &version
	return nil
}

func domainOf(q proto.Message) string {
	m, _ := q.(interface{ GetDomain() string })
	if m == nil {
		return ""
	}
	return m.GetDomain()
}
