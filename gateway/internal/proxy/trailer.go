package proxy

import (
	"net/http"

	"github.com/shiplane/limits/gateway/internal/identity"
)

// announced returns the trailer that a request announces, its values to come,
// without the fields that the upstream may not have of a caller.
func (p *Proxy) announced(trailer http.Header) http.Header {
	if len(trailer) == 0 {
		return nil
	}
	sent := make(http.Header, len(trailer))
	for name := range trailer {
		if identity.Dashed(name) != "X-Request-Id" && !p.cfg.Withheld(name) {
			sent[name] = nil
		}
	}
	return sent
}

// fill gives each field of sent what came for it. What was not announced when sent
// was made is left out.
func fill(sent, came http.Header) {
	for name := range sent {
		sent[name] = came[name]
	}
}
