package watch

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// event is a WatchResponse for every watcher, encoded without its time. It is not
// modified.
type event []byte

func encode(m *rulesv1.WatchResponse) (event, error) { return proto.Marshal(m) }

func encodeChanges(from, to int64, changes []*rulesv1.Change) (event, error) {
	c := &rulesv1.Changes{From: from, Revision: to, Changes: changes}
	return encode(&rulesv1.WatchResponse{Event: &rulesv1.WatchResponse_Changes{Changes: c}})
}

func encodePart(part *rulesv1.Ruleset, more bool) (event, error) {
	s := &rulesv1.Snapshot{Part: part, More: more}
	return encode(&rulesv1.WatchResponse{Event: &rulesv1.WatchResponse_Snapshot{Snapshot: s}})
}

func encodeHeartbeat(revision int64, every time.Duration) (event, error) {
	h := &rulesv1.Heartbeat{Revision: revision, Every: durationpb.New(every)}
	return encode(&rulesv1.WatchResponse{Event: &rulesv1.WatchResponse_Heartbeat{Heartbeat: h}})
}

// sending is an event on its way to one watcher. The codecs know it.
type sending struct {
	event event
	now   time.Time
}

// Fields of WatchResponse and of Timestamp.
const (
	nowField     = 4
	secondsField = 1
	nanosField   = 2
)

// appendTo appends the encoded WatchResponse: encoded messages that are joined are
// one message with the fields of both.
func (s *sending) appendTo(to []byte) []byte {
	seconds, nanos := uint64(s.now.Unix()), uint64(s.now.Nanosecond())
	size := protowire.SizeTag(secondsField) + protowire.SizeVarint(seconds) + protowire.SizeTag(nanosField) + protowire.SizeVarint(nanos)
	to = append(to, s.event...)
	to = protowire.AppendTag(to, nowField, protowire.BytesType)
	to = protowire.AppendVarint(to, uint64(size))
	to = protowire.AppendTag(to, secondsField, protowire.VarintType)
	to = protowire.AppendVarint(to, seconds)
	to = protowire.AppendTag(to, nanosField, protowire.VarintType)
	return protowire.AppendVarint(to, nanos)
}

// message decodes what appendTo encodes.
func (s *sending) message() (*rulesv1.WatchResponse, error) {
	m := new(rulesv1.WatchResponse)
	return m, proto.Unmarshal(s.appendTo(nil), m)
}

// binary is the codec of connect for protobuf that knows a sending. It appends,
// and so copies, because connect uses the memory that a codec gives it again.
type binary struct{}

func (binary) Name() string { return "proto" }

func (c binary) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

func (binary) MarshalAppend(to []byte, m any) ([]byte, error) {
	switch m := m.(type) {
	case *sending:
		return m.appendTo(to), nil
	case proto.Message:
		return proto.MarshalOptions{}.MarshalAppend(to, m)
	}
	return nil, notOurs(m)
}

func (binary) Unmarshal(data []byte, m any) error {
	if m, ok := m.(proto.Message); ok {
		return proto.Unmarshal(data, m)
	}
	return notOurs(m)
}

// jsonText is the codec for JSON, which people with curl use: a sending is decoded for
// each of them.
type jsonText struct{ name string }

func (c jsonText) Name() string { return c.name }

func (jsonText) Marshal(m any) ([]byte, error) {
	if s, ok := m.(*sending); ok {
		decoded, err := s.message()
		if err != nil {
			return nil, err
		}
		m = decoded
	}
	if m, ok := m.(proto.Message); ok {
		return protojson.Marshal(m)
	}
	return nil, notOurs(m)
}

func (jsonText) Unmarshal(data []byte, m any) error {
	if m, ok := m.(proto.Message); ok {
		return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
	}
	return notOurs(m)
}

func notOurs(m any) error { return fmt.Errorf("%T is no message of the watch", m) }
