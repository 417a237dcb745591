package pgstore

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// errDecode is a row that cannot be read: a database of a newer version.
var errDecode = errors.New("a row cannot be read")

// enum is an enumeration of the contract.
type enum interface {
	~int32
	Descriptor() protoreflect.EnumDescriptor
}

// word returns an enumeration's value as the database names it, "token_bucket" for
// ALGORITHM_TOKEN_BUCKET; nil for the unspecified one.
func word[E enum](e E) *string {
	value := e.Descriptor().Values().ByNumber(protoreflect.EnumNumber(e))
	if e == 0 || value == nil {
		return nil
	}
	w := strings.ToLower(strings.TrimPrefix(string(value.Name()), prefix(e)))
	return &w
}

// meaning is the way back.
func meaning[E enum](w *string) (e E, err error) {
	if w == nil {
		return 0, nil
	}
	value := e.Descriptor().Values().ByName(protoreflect.Name(prefix(e) + strings.ToUpper(*w)))
	if value == nil {
		return 0, fmt.Errorf("%w: %q is no %s", errDecode, *w, e.Descriptor().Name())
	}
	return E(value.Number()), nil
}

// prefix is what the names of an enumeration's values begin with.
func prefix[E enum](e E) string {
	return strings.TrimSuffix(string(e.Descriptor().Values().ByNumber(0).Name()), "UNSPECIFIED")
}
