package ruleset

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Route is a class of requests that cost the same and are limited together. It
// is immutable.
type Route struct {
	ID        string   // "" for the class of requests that no pattern matches
	Match     []string // patterns of http.ServeMux
	Cost      int64    // tokens a request spends in each bucket, 0 to limit.CostMax
	UserField string   // member of the body that names the user; "" if none does
}

// Route returns the route class of a request. It is never nil: a request that
// no pattern matches is of the class with ID "" and cost 1.
//
// Patterns are those of http.ServeMux, matched against the path that CleanPath
// returns, the method in upper case and the host in lower case without its port. A
// pattern for "/tree/" takes "/tree" too, if nothing else does, and one for "/leaf"
// takes "/leaf/", unless another one is as exact: many servers make no difference.
// Upper and lower case of a path differ. Safe for concurrent use; r is only read.
func (s *Ruleset) Route(r *http.Request) *Route {
	r = canonical(r)
	if route := s.matched(r); route != nil {
		return route
	}
	if escaped := r.URL.EscapedPath(); len(escaped) > 1 && strings.HasSuffix(escaped, "/") {
		leaf := &url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"), RawPath: strings.TrimSuffix(r.URL.RawPath, "/")}
		if route := s.matched(&http.Request{Method: r.Method, Host: r.Host, URL: leaf}); route != nil {
			return route
		}
	}
	return s.other
}

// matched returns the route class whose pattern takes a canonical request, nil if
// none does.
func (s *Ruleset) matched(r *http.Request) *Route {
	_, pattern := s.mux.Handler(r)
	return s.patterns[pattern]
}

// canonical returns what of r decides its route, in the one spelling that the
// patterns know; r itself where that is r's own.
func canonical(r *http.Request) *http.Request {
	clean, raw := CleanPath(r.URL)
	host, method := canonicalHost(r.Host), strings.ToUpper(r.Method)
	if clean == r.URL.Path && raw == r.URL.RawPath && host == r.Host && method == r.Method {
		return r
	}
	return &http.Request{Method: method, Host: host, URL: &url.URL{Path: clean, RawPath: raw}}
}

// canonicalHost returns a host in lower case, without port and without the dot
// that ends a full domain name: all of them reach the same server.
func canonicalHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// CleanPath returns the path of u in the one spelling that routes are matched
// by, as the Path and RawPath of a URL. A proxy sends on this path, so that no
// spelling reaches the origin under another route class than it was counted in.
//
//   - Percent-encoded letters, digits, '-', '.', '_' and '~' are decoded, and
//     the digits of other encodings are put in upper case (RFC 3986, 6.2.2). An
//     encoded slash stays encoded: it is a part of its segment, and ends none.
//   - "." and ".." segments are resolved, never above the root (RFC 3986, 5.2.4),
//     and slashes in a row become one.
//   - A slash at the end stays; an empty path is "/". The "*" of OPTIONS stays.
//
// To clean a clean path changes nothing. Upper and lower case differ.
func CleanPath(u *url.URL) (path, rawPath string) {
	escaped := u.EscapedPath()
	clean := cleanEscaped(escaped)
	if clean == escaped {
		return u.Path, u.RawPath
	}
	path, err := url.PathUnescape(clean)
	if err != nil {
		return u.Path, u.RawPath // not reached: EscapedPath encodes well, and cleaning keeps it so
	}
	return path, clean
}

func cleanEscaped(escaped string) string {
	if escaped == "*" {
		return escaped
	}
	return resolve(decodeUnreserved(escaped))
}

// resolve takes dot segments and empty segments out of a path.
func resolve(plain string) string {
	if !strings.HasPrefix(plain, "/") {
		plain = "/" + plain
	}
	clean := path.Clean(plain)
	last := plain[strings.LastIndexByte(plain, '/')+1:]
	if clean != "/" && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean
}

// decodeUnreserved decodes what never needed encoding, and puts the rest of the
// encodings in upper case.
func decodeUnreserved(escaped string) string {
	if !strings.Contains(escaped, "%") {
		return escaped
	}
	var b strings.Builder
	b.Grow(len(escaped))
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '%' || i+2 >= len(escaped) {
			b.WriteByte(escaped[i])
			continue
		}
		code := escaped[i : i+3]
		if decoded, err := url.PathUnescape(code); err == nil && unreserved(decoded[0]) {
			b.WriteByte(decoded[0])
		} else {
			b.WriteString(strings.ToUpper(code))
		}
		i += 2
	}
	return b.String()
}

// unreserved reports the characters that mean the same encoded or not (RFC 3986, 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// registeredAt is where ServeMux says that a pattern was registered: a line of
// this file, which tells the author of a rule nothing.
var registeredAt = regexp.MustCompile(` \(registered at .*?:\d+\)`)

// register adds a pattern to mux, or says what is wrong with it.
//
// ServeMux panics on a malformed or conflicting pattern, for to a program that
// spells its patterns out it is a bug. Here patterns are input, there is no
// other way to ask it, and it panics before it changes anything.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			text := registeredAt.ReplaceAllString(fmt.Sprint(problem), "")
			text = strings.TrimPrefix(text, fmt.Sprintf("parsing %q: ", pattern))
			err = errors.New(strings.ReplaceAll(text, "\n", " "))
		}
	}()
	host, path := partsOf(pattern)
	if host != canonicalHost(host) {
		return fmt.Errorf("host %q can never match: want it in lower case, without port", host)
	}
	if plain := decodeUnreserved(path); path != "" && plain != resolve(plain) {
		return fmt.Errorf("path %q can never match: want it clean, as %q", path, resolve(plain))
	}
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// withSlash returns the pattern of the same path with a slash at its end; ok is false
// if a pattern takes that path already, or says that it does not.
func withSlash(pattern string) (with string, ok bool) {
	if strings.HasSuffix(pattern, "/") || strings.HasSuffix(pattern, "/{$}") || strings.HasSuffix(pattern, "...}") {
		return "", false
	}
	return pattern + "/{$}", true
}

// partsOf returns host and path of a pattern "[METHOD ][HOST]/[PATH]"; path is
// "" if there is none.
func partsOf(pattern string) (host, path string) {
	if end := strings.IndexAny(pattern, " \t"); end >= 0 {
		pattern = strings.TrimLeft(pattern[end:], " \t")
	}
	if slash := strings.IndexByte(pattern, '/'); slash >= 0 {
		return pattern[:slash], pattern[slash:]
	}
	return pattern, ""
}
