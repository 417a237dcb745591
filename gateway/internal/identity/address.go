package identity

import (
	"net/http"
	"net/netip"
	"strings"
)

// The header fields that list hops; each proxy adds its own peer on the right.
const (
	ForwardedFor = "X-Forwarded-For"
	Forwarded    = "Forwarded" // RFC 7239
)

// Address returns where a request comes from, an IPv4 address mapped into IPv6
// as IPv4; the zero Addr if remote, the address of the connection, is none. What
// cannot be read (unknown, a hidden name, a duplicate) is no address: then the
// trusted proxy that wrote it stands for its client.
func (i *Identifier) Address(remote string, h http.Header) netip.Addr {
	client := parseHop(remote)
	if !i.Trusts(client) {
		return client
	}
	switch i.AddressHeader {
	case "", ForwardedFor:
		return i.rightmost(client, h[ForwardedFor], lastListed)
	case Forwarded:
		return i.rightmost(client, h[Forwarded], lastForwarded)
	}
	// Any other field holds one address, and the proxy replaces what came.
	if values := h[i.AddressHeader]; len(values) == 1 {
		if named := parseHop(strings.TrimSpace(values[0])); named.IsValid() {
			return named
		}
	}
	return client
}

// rightmost walks hops from the right, as long as they are trusted. last cuts the
// last hop off a line.
func (i *Identifier) rightmost(client netip.Addr, lines []string, last func(line string) (rest, hop string)) netip.Addr {
	for line := len(lines) - 1; line >= 0; line-- {
		for rest := lines[line]; rest != ""; {
			var text string
			rest, text = last(rest)
			hop := parseHop(text)
			if !hop.IsValid() {
				return client
			}
			if client = hop; !i.Trusts(client) {
				return client
			}
		}
	}
	return client
}

// Trusts reports whether an address is a trusted proxy's.
func (i *Identifier) Trusts(address netip.Addr) bool {
	for _, prefix := range i.Trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

func lastListed(line string) (rest, hop string) {
	comma := strings.LastIndexByte(line, ',')
	return line[:max(comma, 0)], strings.TrimSpace(line[comma+1:])
}

// lastForwarded returns the for= of the last element of a Forwarded line, "" if
// it has none or several.
//
// It reads from the right, quoted strings too: what stands left of a proxy's own
// element was written by a stranger, who could open a quote there and so swallow
// the element if the line was read from the left. A backslash, which no
// address needs, makes an element unreadable.
func lastForwarded(line string) (rest, hop string) {
	start, quoted := 0, false
	for at := len(line) - 1; at >= 0; at-- {
		if line[at] == '"' {
			quoted = !quoted
		} else if line[at] == ',' && !quoted {
			start = at + 1
			break
		}
	}
	element := line[start:]
	rest = line[:max(start-1, 0)]
	if strings.ContainsRune(element, '\\') {
		return rest, ""
	}
	found := false
	for element != "" {
		var pair string
		pair, element = firstPair(element)
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found {
			return rest, ""
		}
		hop, found = unquote(value), true
	}
	return rest, hop
}

// firstPair cuts an element of Forwarded at its first semicolon outside of quotes.
func firstPair(element string) (pair, rest string) {
	quoted := false
	for at := range len(element) {
		switch c := element[at]; {
		case c == '"':
			quoted = !quoted
		case c == ';' && !quoted:
			return element[:at], element[at+1:]
		}
	}
	return element, ""
}

// unquote takes the quotes off a value, "" if they are not a pair. Some proxies
// write IPv6 addresses without the quotes that they need.
func unquote(value string) string {
	if !strings.Contains(value, `"`) {
		return value
	}
	if len(value) < 2 || value[0] != '"' || strings.IndexByte(value[1:], '"') != len(value)-2 {
		return ""
	}
	return value[1 : len(value)-1]
}

// parseHop reads an address with or without port (also a hidden one, "_name", of
// RFC 7239), IPv6 with or without brackets; the zero Addr if it is none.
func parseHop(text string) netip.Addr {
	if host, port, ok := strings.Cut(text, ":_"); ok && port != "" && !strings.Contains(port, ":") {
		text = host
	}
	if hop, err := netip.ParseAddrPort(text); err == nil {
		return hop.Addr().Unmap().WithZone("")
	}
	bare, open := strings.CutPrefix(text, "[")
	bare, shut := strings.CutSuffix(bare, "]")
	hop, err := netip.ParseAddr(bare)
	if err != nil || open != shut || open && hop.Is4() {
		return netip.Addr{}
	}
	return hop.Unmap().WithZone("")
}
