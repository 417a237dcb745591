package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"
)

// messageMax bounds a message in bytes, and inFlightMax the calls in flight on one
// connection: what is under way then never fills the 64 KiB that an HTTP/2 peer
// must take before it says more, so that the load keeps no account of it.
const (
	messageMax  = 512
	inFlightMax = 64
)

// replenish is after how many bytes of answers the service is told that it may
// send as many more: half of what it may send at first.
const replenish = 1 << 15

// tally is what a load has counted.
type tally struct{ admitted, refused, failed int64 }

func (t *tally) add(o tally) {
	t.admitted += o.admitted
	t.refused += o.refused
	t.failed += o.failed
}

func (t *tally) answered() int64 { return t.admitted + t.refused }

// load calls one method of a service.
type load struct {
	address, method string   // HOST:PORT, /package.Service/Method
	messages        [][]byte // one a key, without gRPC's prefix, of at most messageMax bytes
	read            func(answer []byte) verdict
	connections     int
	inFlight        int // on each connection, at most inFlightMax
}

// run calls for so long, in a closed loop, on connections of its own, and waits
// for the answers that are under way. An error means that a connection broke; a
// call that was answered by an error alone is counted as failed.
func (l *load) run(ctx context.Context, length time.Duration) (total tally, err error) {
	tallies := make([]tally, l.connections)
	group, ctx := errgroup.WithContext(ctx)
	end := time.Now().Add(length)
	for i := range tallies {
		group.Go(func() (err error) {
			tallies[i], err = l.connection(ctx, i*len(l.messages)/l.connections, end)
			return err
		})
	}
	err = group.Wait()
	for _, t := range tallies {
		total.add(t)
	}
	return total, err
}

// connection calls on one connection, beginning with the key at next.
func (l *load) connection(ctx context.Context, next int, end time.Time) (tally, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return tally{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c := &caller{load: l, next: next, end: end, in: bufio.NewReaderSize(conn, 1<<16), out: bufio.NewWriterSize(conn, 1<<16), streams: map[uint32]bool{}}
	c.frames = http2.NewFramer(c.out, c.in)
	c.frames.SetReuseFrames()
	c.packer = hpack.NewEncoder(&c.headers)
	err = c.loop()
	return c.counted, err
}

// caller is the client's end of one connection. It lives in one goroutine: it
// answers each answer with the next call, and flushes when nothing is left to read.
type caller struct {
	*load
	counted tally
	next    int
	end     time.Time
	in      *bufio.Reader
	out     *bufio.Writer
	frames  *http2.Framer
	packer  *hpack.Encoder
	headers bytes.Buffer
	packed  int // header blocks that were made

	stream   uint32
	streams  map[uint32]bool // in flight, and whether a message has come
	body     []byte          // of a call
	received int             // bytes since the service was last told to go on
}

func (c *caller) loop() error {
	if _, err := io.WriteString(c.out, http2.ClientPreface); err != nil {
		return err
	}
	if err := c.frames.WriteSettings(http2.Setting{ID: http2.SettingEnablePush, Val: 0}); err != nil {
		return err
	}
	for range c.inFlight {
		if err := c.call(); err != nil {
			return err
		}
	}
	for len(c.streams) > 0 {
		if c.in.Buffered() == 0 {
			if err := c.out.Flush(); err != nil {
				return err
			}
		}
		frame, err := c.frames.ReadFrame()
		if err != nil {
			return fmt.Errorf("%d calls in flight at %s: %w", len(c.streams), c.address, err)
		}
		if err := c.take(frame); err != nil {
			return err
		}
	}
	return c.out.Flush()
}

// call sends the next call.
func (c *caller) call() error {
	c.stream += 2
	id := c.stream - 1
	if err := c.pack(); err != nil {
		return err
	}
	if err := c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.headers.Bytes(), EndHeaders: true}); err != nil {
		return err
	}
	message := c.messages[c.next]
	c.next = (c.next + 1) % len(c.messages)
	c.body = append(binary.BigEndian.AppendUint32(append(c.body[:0], 0), uint32(len(message))), message...)
	c.streams[id] = false
	return c.frames.WriteData(id, true, c.body)
}

// pack makes the headers of a call. From the second on they are references to
// what the first has sent, so that one block serves for all others.
func (c *caller) pack() error {
	if c.packed++; c.packed > 2 {
		return nil
	}
	c.headers.Reset()
	for _, f := range [...]hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: c.method}, {Name: ":authority", Value: c.address},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}, {Name: "user-agent", Value: "peers"},
	} {
		if err := c.packer.WriteField(f); err != nil {
			return err
		}
	}
	return nil
}

// take deals with a frame of the service.
func (c *caller) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.DataFrame:
		return c.data(f)
	case *http2.HeadersFrame:
		if f.StreamEnded() {
			return c.done(f.StreamID)
		}
	case *http2.RSTStreamFrame:
		return c.done(f.StreamID)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.frames.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return c.frames.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("%s goes away: %v", c.address, f.ErrCode)
	}
	return nil
}

// data takes a message, which is small enough to come in one frame.
func (c *caller) data(f *http2.DataFrame) error {
	data := f.Data()
	if len(data) < 5 || int(binary.BigEndian.Uint32(data[1:])) != len(data)-5 {
		return errors.New("an answer is not one message in one frame")
	}
	switch c.read(data[5:]) {
	case admitted:
		c.counted.admitted++
	case refused:
		c.counted.refused++
	case failed:
		c.counted.failed++
	}
	c.streams[f.StreamID] = true
	if c.received += int(f.Length); c.received < replenish {
		return nil
	}
	err := c.frames.WriteWindowUpdate(0, uint32(c.received))
	c.received = 0
	return err
}

// done ends a call and begins another while there is time.
func (c *caller) done(id uint32) error {
	answered, ours := c.streams[id]
	if !ours {
		return fmt.Errorf("stream %d of %s is not ours, or ended twice", id, c.address)
	}
	if !answered {
		c.counted.failed++
	}
	delete(c.streams, id)
	if time.Now().After(c.end) {
		return nil
	}
	return c.call()
}
