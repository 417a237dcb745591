package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSmuggledRequestsAreRefusedOrCounted: whatever the framing says, the upstream
// gets no request that the limiter did not see, and each with one length.
func TestSmuggledRequestsAreRefusedOrCounted(t *testing.T) {
	const (
		head   = "POST /v1/items/1 HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\n"
		hidden = "GET /hidden HTTP/1.1\r\nHost: a\r\nX-Api-Key: big-1\r\nConnection: close\r\n\r\n"
		chunks = "0\r\n\r\n"
	)
	for _, c := range []struct {
		name, request string
		refused       bool // the first request is answered 400, 501 or 505, and nothing after it is read
	}{
		{"CL.TE", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + hidden, false},
		{"TE.CL", head + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + fmt.Sprintf("%x\r\n", len(hidden)) + hidden + "\r\n" + chunks, false},
		{"two lengths", head + "Content-Length: 5\r\nContent-Length: 0\r\n\r\nabcde" + hidden, true},
		{"two lengths in one", head + "Content-Length: 0, 5\r\n\r\nabcde" + hidden, true},
		{"a signed length", head + "Content-Length: +5\r\n\r\nabcde" + hidden, true},
		{"a negative length", head + "Content-Length: -1\r\n\r\n" + hidden, true},
		{"a hexadecimal length", head + "Content-Length: 0x5\r\n\r\nabcde" + hidden, true},
		{"a length of too many digits", head + "Content-Length: 18446744073709551616\r\n\r\n" + hidden, true},
		{"an unknown coding", head + "Transfer-Encoding: xchunked\r\n\r\n" + chunks + hidden, true},
		{"two codings", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunks + hidden, true},
		{"two codings in one", head + "Transfer-Encoding: identity, chunked\r\n\r\n" + chunks + hidden, true},
		{"a space before the colon", head + "Transfer-Encoding : chunked\r\n\r\n" + chunks + hidden, true},
		{"a folded line", head + "X: y\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nabcde", false},
		{"a folded value", head + "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunks + hidden, false},
		{"a first line that is folded", "POST /v1/items/1 HTTP/1.1\r\n Host: a\r\n\r\n" + hidden, true},
		{"a vertical tab", head + "Transfer-Encoding: \x0bchunked\r\n\r\n" + chunks + hidden, true},
		{"a NUL", head + "Content-Length: 5\x00\r\n\r\nabcde" + hidden, true},
		{"a bare CR in a header", head + "X: y\rTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\nabcde" + hidden, true},
		{"a chunk of a signed size", head + "Transfer-Encoding: chunked\r\n\r\n+5\r\nabcde\r\n" + chunks + hidden, false},
		{"a chunk of an overflowing size", head + "Transfer-Encoding: chunked\r\n\r\n10000000000000005\r\nabcde\r\n" + chunks + hidden, false},
		{"a chunk that ends elsewhere", head + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX" + chunks + hidden, false},
		{"an extension with a bare LF", head + "Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nabcde\r\n" + chunks + hidden, false},
		{"chunks in HTTP/1.0", strings.Replace(head, "1.1", "1.0", 1) + "Transfer-Encoding: chunked\r\n\r\n" + chunks + hidden, false},
		{"a trailer that is a length", head + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 50\r\n\r\n" + hidden, true},
		{"a length named by Connection", head + "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nabcde" + hidden, false},
		{"a host named twice", head + "Host: b\r\n\r\n" + hidden, true},
		{"HTTP/2.0 without its preface", strings.Replace(head, "1.1", "2.0", 1) + "\r\n" + hidden, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen atomic.Int64
			g := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen.Add(1)
				if len(r.Header["Content-Length"]) > 1 || len(r.TransferEncoding) > 0 && r.Header.Get("Content-Length") != "" {
					t.Errorf("the upstream was told %v and %v", r.Header["Content-Length"], r.TransferEncoding)
				}
				body, _ := io.ReadAll(r.Body) // a body that is broken is no request
				fmt.Fprintf(w, "%s %d", r.URL.Path, len(body))
			}))
			request := c.request
			if !strings.HasSuffix(request, hidden) {
				request += hidden // ends the connection
			}
			_, reader := g.raw(request)
			answers, err := io.ReadAll(reader)
			if err != nil && len(answers) == 0 {
				t.Fatalf("no answer: %v", err)
			}
			status := strings.TrimPrefix(string(answers), "HTTP/1.1 ")
			if refused := strings.HasPrefix(status, "400") || strings.HasPrefix(status, "501") || strings.HasPrefix(status, "505"); c.refused && !refused {
				t.Errorf("answered %.40q", answers)
			}
			if c.refused && seen.Load() > 0 {
				t.Errorf("the upstream saw %d requests", seen.Load())
			}
			counted := 0
			if text := g.metric(`shiplane_gateway_rule_decisions_total{rule="big-global",verdict="allowed"}`); text != "" {
				counted = number(t, text)
			}
			if answered := strings.Count(string(answers), "X-Request-Id: "); int(seen.Load()) > counted || answered != counted {
				t.Errorf("the upstream saw %d requests, the limiter %d, and %d were answered:\n%s", seen.Load(), counted, answered, answers)
			}
		})
	}
}
