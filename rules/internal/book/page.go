package book

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/shiplane/limits/rules/internal/ledger"
)

const (
	pageDefault = 100
	pageMax     = 1000
)

// pageSize is how many items a page has at most.
func pageSize(asked int32) (int, error) {
	if asked < 0 || asked > pageMax {
		return 0, badField("page_size", asked, "want 1 to %d, or 0 for %d", pageMax, pageDefault)
	}
	if asked == 0 {
		return pageDefault, nil
	}
	return int(asked), nil
}

// A page token says after what a list goes on. It is of one kind of list, so that
// one of another list is refused and not misread. To callers it is opaque.
const (
	tokenByID       = "id"
	tokenByPosition = "at"
)

func token(kind, after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + after))
}

// after reads a page token; "" of an empty one.
func after(kind, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	said, err := base64.RawURLEncoding.DecodeString(text)
	rest, ok := strings.CutPrefix(string(said), kind+":")
	if err != nil || !ok || rest == "" {
		return "", badField("page_token", text, "want the next_page_token of the page before")
	}
	return rest, nil
}

// afterPosition reads a page token; the end of the log of an empty one.
func afterPosition(text string) (p ledger.Position, err error) {
	said, err := after(tokenByPosition, text)
	if err != nil || said == "" {
		return p, err
	}
	if n, err := fmt.Sscanf(said, "%d.%d", &p.Revision, &p.Ordinal); n != 2 || err != nil || p.Revision < 1 || p.Ordinal < 0 {
		return ledger.Position{}, badField("page_token", text, "want the next_page_token of the page before")
	}
	return p, nil
}

func positionToken(p ledger.Position) string {
	return token(tokenByPosition, fmt.Sprintf("%d.%d", p.Revision, p.Ordinal))
}

// cut returns the first most of items, and where the next page begins if there are
// more. Lists are asked for most + 1.
func cut[T any](items []T, most int, tokenOf func(last T) string) (page []T, next string) {
	if len(items) <= most {
		return items, ""
	}
	return items[:most], tokenOf(items[most-1])
}
