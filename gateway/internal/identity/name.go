package identity

import (
	"net/http"
	"strings"
)

// Dashed returns the canonical name of the header field that an upstream may take
// name for: many make no difference between an underscore and a dash.
func Dashed(name string) string {
	if !strings.Contains(name, "_") {
		return name
	}
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}
