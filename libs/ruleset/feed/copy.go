package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
)

// The last good copy on disk is
//
//	magic       8 bytes, with the version of the format
//	SHA-256     32 bytes, of all that follows
//	saved       8 bytes, big endian: µs since 1970, on this machine's clock
//	whole       1 byte: 1 if nothing of the revision was refused, else 0
//	ruleset     the rest: shiplane.rules.v1.Ruleset in binary
//
// A version of another number is another format, which is not read.
const (
	copyMagic  = "SLRULES\x01"
	copyHeader = len(copyMagic) + sha256.Size + 8 + 1
	// copyMax is the most bytes that a copy may have: 100,000 overrides with reasons of
	// 1 KiB are some 150 MB.
	copyMax = 256 << 20
)

// errNoCopy says that a file holds no copy: it is cut off, altered, or another file.
var errNoCopy = errors.New("is no copy of rules, or a damaged one")

// copyOnDisk is a ruleset as it was in force.
type copyOnDisk struct {
	rules *rulesv1.Ruleset
	saved time.Time
	// whole says that the copy has all of its revision. A pod that starts from one that
	// has not asks the service for everything: what it refused as an older program it
	// may take as a newer one.
	whole bool
}

// encode returns the content of the file.
func (c *copyOnDisk) encode() ([]byte, error) {
	out := make([]byte, copyHeader, copyHeader+proto.Size(c.rules))
	copy(out, copyMagic)
	binary.BigEndian.PutUint64(out[copyHeader-9:], uint64(c.saved.UnixMicro()))
	if c.whole {
		out[copyHeader-1] = 1
	}
	out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(out, c.rules)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(out[len(copyMagic)+sha256.Size:])
	copy(out[len(copyMagic):], sum[:])
	return out, nil
}

// decodeCopy reads the content of a file. Any byte of it that is not as it was written
// is errNoCopy.
func decodeCopy(text []byte) (*copyOnDisk, error) {
	if len(text) < copyHeader || !bytes.HasPrefix(text, []byte(copyMagic)) {
		return nil, errNoCopy
	}
	body := text[len(copyMagic)+sha256.Size:]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:], text[len(copyMagic):len(copyMagic)+sha256.Size]) {
		return nil, errNoCopy
	}
	c := &copyOnDisk{
		saved: time.UnixMicro(int64(binary.BigEndian.Uint64(body))).UTC(),
		whole: body[8] == 1,
		rules: &rulesv1.Ruleset{},
	}
	if err := proto.Unmarshal(text[copyHeader:], c.rules); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCopy, err)
	}
	return c, nil
}
