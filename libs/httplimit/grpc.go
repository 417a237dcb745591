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
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if media = strings.ToLower(strings.TrimSpace(media)); grpcType.MatchString(media) {
		return media
	}
	return ""
}

// WriteGRPC sends the problem as the whole response to a gRPC call of this media
// type: in its headers and without a body ("trailers-only"), so that clients which
// retry may do so. It carries a google.rpc.RetryInfo where waiting helps, and the
// problem's code as google.rpc.ErrorInfo.
func (p *Problem) WriteGRPC(w http.ResponseWriter, mediaType string) {
	code, ok := grpcCodes[p.Status]
	if !ok {
		code = grpcInternal
	}
	status := &statuspb.Status{Code: code, Message: p.text()}
	info := &errdetails.ErrorInfo{Reason: strings.ToUpper(p.Code), Domain: errorDomain}
	details := []proto.Message{info}
	if p.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(p.RetryAfter) * time.Second)})
	}
	for _, detail := range details {
		packed, err := anypb.New(detail)
		if err != nil { // not reached: these messages always marshal
			continue
		}
		status.Details = append(status.Details, packed)
	}
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
	h.Set(grpcStatusField, strconv.Itoa(int(code)))
	h.Set(grpcMessageField, url.PathEscape(status.GetMessage()))
	if text, err := proto.Marshal(status); err == nil {
		h.Set(grpcDetailsField, base64.RawStdEncoding.EncodeToString(text))
	}
	expose(h, grpcStatusField, grpcMessageField, grpcDetailsField)
	w.WriteHeader(http.StatusOK)
}

func (p *Problem) text() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}
