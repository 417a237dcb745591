package edge

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// Bodies that are read before any limit take a bounded sum of memory: one of
// unknown length counts for the most that it may become.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	h := New(Config{BodyMax: 1 << 20})
	known, unknown := httptest.NewRequest("POST", "/", strings.NewReader("12345")), httptest.NewRequest("POST", "/", strings.NewReader("12345"))
	unknown.ContentLength = -1
	if got := h.bodySize(known); got != 5 {
		t.Errorf("a body of 5 bytes counts %d", got)
	}
	known.ContentLength = 1 << 30 // is refused before it is read
	if got := h.bodySize(known); got != 1<<20 {
		t.Errorf("a body above the bound counts %d", got)
	}
	held := 0
	for h.bodies.TryAcquire(h.bodySize(unknown)) {
		held++
	}
	if held != bodiesMax/(2<<20) {
		t.Errorf("%d bodies of up to 1 MiB are held at once, want %d", held, bodiesMax/(2<<20))
	}
	if p := busy().problem; p.Status != 503 || p.RetryAfter != 1 || p.Code != CodeBusy {
		t.Errorf("beyond that: %+v", p)
	}
}
