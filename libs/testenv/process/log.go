package process

import (
	"errors"
	"io"
	"os"
	"strings"
)

// tailMax bounds what Tail reads, in bytes.
const tailMax = 64 << 10

// Tail returns the last lines of a log, at most 64 KiB of them, or why it cannot
// be read: it is made for messages about failures, which have one error already.
func Tail(path string, lines int) string {
	content, err := readEnd(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func readEnd(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	content := make([]byte, min(info.Size(), tailMax))
	n, err := file.ReadAt(content, info.Size()-int64(len(content)))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return content[:n], nil
}
