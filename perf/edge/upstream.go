package edge

import (
	"context"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/websocket"
)

// eventEvery is the time between two events of a stream.
const eventEvery = 250 * time.Millisecond

// upstream is the API behind the gateway.
type upstream struct {
	url    string
	close  func()
	served atomic.Int64
}

func startUpstream(ctx context.Context) (*upstream, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{url: "http://" + l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("/upload", upload)
	mux.HandleFunc("/download", download)
	mux.HandleFunc("/events", serveEvents)
	mux.Handle("/socket", websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) }))
	mux.HandleFunc("/image", serveImage)
	mux.HandleFunc("/page", servePage)
	mux.HandleFunc("/work", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-time.After(20 * time.Millisecond): // is the work
			u.served.Add(1)
			fmt.Fprint(w, "done")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	u.close = func() { _ = server.Close() }
	go func() { _ = server.Serve(l) }()
	return u, nil
}

// upload answers with the length and hash of what it was sent.
func upload(w http.ResponseWriter, r *http.Request) {
	sum := fnv.New64a()
	n, err := io.Copy(sum, r.Body)
	fmt.Fprintf(w, "%d %x %v", n, sum.Sum64(), err)
}

func download(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseInt(r.FormValue("bytes"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.CopyN(w, newPattern(), size)
}

func serveEvents(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	for i := 0; ; i++ {
		fmt.Fprintf(w, "data: %d %d\n\n", i, time.Now().UnixNano())
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

func serveImage(w http.ResponseWriter, r *http.Request) {
	hue, _ := strconv.Atoi(r.FormValue("n")) // any other is image 0
	made := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for y := range 64 {
		for x := range 64 {
			made.Set(x, y, color.RGBA{uint8(hue * 12), uint8(x * 4), uint8(y * 4), 255})
		}
	}
	w.Header().Set("Content-Type", "image/png")
	_ = png.Encode(w, made)
}

// pattern is a body without an end that no two positions share by accident.
type pattern struct {
	block [1 << 16]byte
	at    int
}

func newPattern() *pattern {
	p := &pattern{}
	for i := range p.block {
		p.block[i] = byte(i*7 + i>>8)
	}
	return p
}

func (p *pattern) Read(b []byte) (int, error) {
	n := copy(b, p.block[p.at:])
	p.at = (p.at + n) % len(p.block)
	return n, nil
}
