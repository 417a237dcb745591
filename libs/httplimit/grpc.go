package httplimit

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// grpcCodes are the gRPC codes of the statuses that are answered here.
var grpcCodes = map[int]int32{
	http.StatusBadRequest:         3,  // INVALID_ARGUMENT
	http.StatusTooManyRequests:    8,  // RESOURCE_EXHAUSTED
	http.StatusMethodNotAllowed:   12, // UNIMPLEMENTED
	http.StatusBadGateway:         14, // UNAVAILABLE
	http.StatusServiceUnavailable: 14,
	http.StatusGatewayTimeout:     4, // DEADLINE_EXCEEDED
	http.StatusRequestTimeout:     4,
	http.StatusUnauthorized:       16, // UNAUTHENTICATED
}

const grpcInternal = 13 // INTERNAL, for any other

// The header fields of a gRPC status.
const (
	grpcStatusField  = "Grpc-Status"
	grpcMessageField = "Grpc-Message"
	grpcDetailsField = "Grpc-Status-Details-Bin"
)

// errorDomain names who gave an ErrorInfo its reason.
const errorDomain = "limits.shiplane"

// grpcType is a Content-Type of gRPC or gRPC-Web, without parameters.
var grpcType = regexp.MustCompile(`^application/grpc(-web(-text)?)?(\+[a-z0-9.-]{1,32})?$`)

// GRPCType returns the media type in which a gRPC or gRPC-Web call is answered,
// "" if the request is none.
func GRPCType(r *http.Request) string {
	if media := mediaType(r); grpcType.MatchString(media) {
		return media
	}
	return ""
}

// mediaType is a request's, without parameters and in small letters.
func mediaType(r *http.Request) string {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// WriteGRPC sends the problem as the whole response to a gRPC call of this media
// type: in its headers and without a body ("trailers-only"), so that clients which
// retry may do so. It carries a google.rpc.RetryInfo where waiting helps, and the
// problem's code as google.rpc.ErrorInfo.
func (p *Problem) WriteGRPC(w http.ResponseWriter, mediaType string) {
	status := &statuspb.Status{Code: p.grpcCode(), Message: p.text()}
	for _, detail := range p.details() {
		packed, err := anypb.New(detail)
		if err != nil { // not reached: these messages always marshal
			continue
		}
		status.Details = append(status.Details, packed)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set(grpcStatusField, strconv.Itoa(int(status.GetCode())))
	h.Set(grpcMessageField, url.PathEscape(status.GetMessage()))
	if text, err := proto.Marshal(status); err == nil {
		h.Set(grpcDetailsField, base64.RawStdEncoding.EncodeToString(text))
	}
	expose(h, grpcStatusField, grpcMessageField, grpcDetailsField)
	w.WriteHeader(http.StatusOK)
}

func (p *Problem) grpcCode() int32 {
	if code, ok := grpcCodes[p.Status]; ok {
		return code
	}
	return grpcInternal
}

// details are what the status of an RPC tells beside its code and text.
func (p *Problem) details() []proto.Message {
	all := []proto.Message{&errdetails.ErrorInfo{Reason: strings.ToUpper(p.Code), Domain: errorDomain}}
	if p.RetryAfter > 0 {
		all = append(all, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(p.RetryAfter) * time.Second)})
	}
	return all
}

func (p *Problem) text() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}
