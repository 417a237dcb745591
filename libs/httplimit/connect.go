package httplimit

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"connectrpc.com/connect"
)

// connectCalls writes to calls of Connect, which say that they are: a unary one has the
// media type of any other JSON.
var connectCalls = connect.NewErrorWriter(connect.WithRequireConnectProtocolHeader())

// connectType is a Content-Type of Connect, without parameters: that of a stream is the
// answer's too.
var connectType = regexp.MustCompile(`^application/(connect\+)?(proto|json)$`)

func isConnect(r *http.Request) bool {
	may := connectType.MatchString(mediaType(r))
	if r.Method == http.MethodGet {
		may = strings.Contains(r.URL.RawQuery, "connect=v1") // else the query of each refused GET would be parsed
	}
	return may && connectCalls.IsSupported(r)
}

// writeConnect sends the problem as the whole response to a call of Connect, with the
// code and the details that gRPC's has. A unary one gets the HTTP status that the
// protocol has for the code: 504 where it is 408 otherwise, 503 where it is 502.
func (p *Problem) writeConnect(w http.ResponseWriter, r *http.Request) {
	failure := connect.NewError(connect.Code(p.grpcCode()), errors.New(p.text())) //nolint:gosec // 3 to 16
	for _, message := range p.details() {
		if detail, err := connect.NewErrorDetail(message); err == nil { // these messages always marshal
			failure.AddDetail(detail)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	_ = connectCalls.Write(w, r, failure) // an error of the connection is the server's to notice
}
