package limit

import (
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"strings"
)

// Kind says what a Subject is.
type Kind uint8

// The kinds of subjects, in the order in which a request's subjects are asked:
// what is cheapest to invent is asked first, so that a flood of it charges
// nothing behind it.
const (
	IP Kind = iota + 1
	User
	Account
)

// Kinds is the number of kinds; a table indexed by Kind has Kinds+1 rows.
const Kinds = 3

// String returns the kind's name as it stands in store keys: ip, user or account.
func (k Kind) String() string {
	switch k {
	case IP:
		return "ip"
	case User:
		return "user"
	case Account:
		return "account"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Bounds of a subject's parts, in bytes.
const (
	domainMax = 64 // a domain is written by an operator, and stands in every store key
	idMax     = 64 // a longer id (a caller chooses it) is kept as its SHA-256
)

// Subject is who is counted: an account, an IP address or a user of one domain.
// Its counters share a record in the store, a hash tag and so a shard.
//
// Subjects are comparable: two are equal if and only if domain, kind and id
// are. The zero Subject is nobody and is not valid.
type Subject struct {
	domain, id string
	hash       uint64
	kind       Kind
	hashed     bool
}

// seed keeps Subject.Hash out of callers' hands: nobody can choose ids that
// crowd one place of a table. It is the process's and never changes.
var seed = maphash.MakeSeed()

// NewSubject makes a subject. id may be any bytes, as callers choose them (user
// names with braces, NUL, invalid UTF-8); one over 64 bytes is kept as its
// SHA-256, which bounds memory and cannot equal a short id. An error names an
// empty id, an unknown kind, or a domain that ValidateDomain refuses.
func NewSubject(domain string, kind Kind, id string) (Subject, error) {
	if err := ValidateDomain(domain); err != nil {
		return Subject{}, err
	}
	if kind < IP || kind > Account {
		return Subject{}, fmt.Errorf("subject kind %d: want ip, user or account", uint8(kind))
	}
	if id == "" {
		return Subject{}, fmt.Errorf("subject id of a %s is empty", kind)
	}
	s := Subject{domain: domain, id: id, kind: kind}
	if len(id) > idMax {
		sum := sha256.Sum256([]byte(id))
		s.id, s.hashed = string(sum[:]), true
	}
	s.hash = maphash.Comparable(seed, s)
	return s, nil
}

// ValidateDomain reports whether domain can name a set of rules: 1 to 64 of
// a-z, 0-9, '-', '_' and '.', beginning with a letter or digit.
func ValidateDomain(domain string) error {
	return validateName("domain", domain, domainMax)
}

// Domain returns the set of rules that the subject is counted under.
func (s Subject) Domain() string { return s.domain }

// Kind returns what the subject is.
func (s Subject) Kind() Kind { return s.kind }

// ID returns the id as it was given, or the 32 bytes of its SHA-256 if Hashed.
func (s Subject) ID() string { return s.id }

// Hash is a hash of the whole subject: the same for equal subjects of one
// process, another in the next.
func (s Subject) Hash() uint64 { return s.hash }

// Hashed reports whether ID is the SHA-256 of an id over 64 bytes.
func (s Subject) Hashed() bool { return s.hashed }

// Clone returns an equal subject that shares no memory with s, for a table that
// outlives the request whose header the id was cut from.
func (s Subject) Clone() Subject {
	s.domain, s.id = strings.Clone(s.domain), strings.Clone(s.id)
	return s
}

// String returns domain/kind:id for people; a hashed id is shown in hex. It is
// no key: two subjects can print alike.
func (s Subject) String() string {
	if s.hashed {
		return fmt.Sprintf("%s/%s:sha256=%x", s.domain, s.kind, s.id)
	}
	return fmt.Sprintf("%s/%s:%s", s.domain, s.kind, s.id)
}

func validateName(what, name string, longest int) error {
	if name == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if len(name) > longest {
		return fmt.Errorf("%s %.32q… has %d bytes: at most %d are allowed", what, name, len(name), longest)
	}
	for i := range len(name) {
		c := name[i]
		alnum := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '-' && c != '_' && c != '.') {
			return fmt.Errorf("%s %q: want a-z, 0-9, '-', '_' and '.', beginning with a letter or digit", what, name)
		}
	}
	return nil
}
