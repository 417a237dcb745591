package watch

import (
	"errors"

	"connectrpc.com/connect"
)

// Why a watch ends or is not begun, or a report is not taken.
var (
	errDraining = errors.New("this instance is about to end: watch at another one")
	errFull     = errors.New("this instance has as many watchers as it takes: watch at another one")
	errStarting = errors.New("this instance has not read the rules yet")
	errSlow     = errors.New("what was sent was taken too slowly: watch again with the revision that you have")
	errNoDomain = errors.New("no rules have been written for the domain")
	errBusy     = errors.New("more reports wait to be stored than this instance takes: report again when the next one is due")
	errEncoding = errors.New("the rules cannot be encoded; the log of the rules service tells more")
)

// codes are what they are in Connect.
var codes = map[error]connect.Code{
	errDraining: connect.CodeUnavailable,
	errFull:     connect.CodeUnavailable,
	errStarting: connect.CodeUnavailable,
	errSlow:     connect.CodeUnavailable,
	errNoDomain: connect.CodeNotFound,
	errBusy:     connect.CodeResourceExhausted,
	errEncoding: connect.CodeInternal,
}

// failure makes an error one of Connect, each time a new one: connect may add to
// it. Errors that are none of ours are returned as they are.
func failure(err error) error {
	for known, code := range codes {
		if errors.Is(err, known) {
			return connect.NewError(code, err)
		}
	}
	return err
}
