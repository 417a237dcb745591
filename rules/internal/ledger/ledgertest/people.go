package ledgertest

import (
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// Pods are listed as they reported last, by id, if they did so since; a report that
// cannot be kept is refused, and those with it.
func pods(b *bench) {
	early, late := time.Date(2026, 5, 6, 7, 8, 9, 1000, time.UTC), time.Date(2026, 5, 6, 7, 8, 10, 0, time.UTC)
	report := func(id string, at time.Time, faults ...string) ledger.Report {
		r := told(id, "1", id == "b", 3)
		r.At, r.Faults = at, faults
		return r
	}
	b.report(report("b", early), report("a-1", early), report("a1", early), report("b", late, "rule x: 'no'", "é"))
	status := func(id string, at time.Time, faults ...string) *rulesv1.PodStatus {
		return &rulesv1.PodStatus{Id: id, Region: "eu", Canary: id == "b", Revision: 3, Faults: faults, SeenAt: timestamppb.New(at)}
	}
	b.same("all", must(b.Pods(b.ctx(), domain, early))(b), []*rulesv1.PodStatus{status("a-1", early), status("a1", early), status("b", late, "rule x: 'no'", "é")})
	b.same("late ones", must(b.Pods(b.ctx(), domain, late))(b), []*rulesv1.PodStatus{status("b", late, "rule x: 'no'", "é")})
	if got := must(b.Pods(b.ctx(), "internal", early))(b); len(got) != 0 {
		b.Errorf("elsewhere: %v", got)
	}
	if err := b.Report(b.ctx(), []ledger.Report{report("c", late), report("d", late, "a\x00b")}); !errors.Is(err, ledger.ErrRefused) || !strings.Contains(err.Error(), "faults[0]") {
		b.Errorf("NUL in a fault: %v, want %v", err, ledger.ErrRefused)
	}
	b.report(report("e", early.Add(2*ledger.PodsKept)))
	if got := must(b.Pods(b.ctx(), domain, early))(b); len(got) != 1 || got[0].GetId() != "e" {
		b.Errorf("long after: %v, want e alone", got)
	}
}

// Tokens come back as they were made, by their time; to revoke one twice keeps the
// first time; ids and secrets are no one else's.
func tokens(b *bench) {
	at := func(n int) time.Time { return time.Date(2026, 5, 6, 7, 8, n, 1000, time.UTC) }
	first := &ledger.Token{ID: "zz", Hash: sha256.Sum256([]byte("1")), Name: "Ada's \"pod\"", Role: rulesv1.Role_ROLE_POD, CreatedAt: at(1), ExpiresAt: at(9)}
	second := &ledger.Token{ID: "aa", Hash: sha256.Sum256([]byte("2")), Name: "b", Role: rulesv1.Role_ROLE_ADMIN, CreatedAt: at(2)}
	for _, t := range []*ledger.Token{second, first} {
		if err := b.CreateToken(b.ctx(), t); err != nil {
			b.Fatal(err)
		}
	}
	other := b.open()
	b.same("all", must(other.Tokens(b.ctx()))(b), []*ledger.Token{first, second})
	for _, t := range []*ledger.Token{
		{ID: "zz", Hash: sha256.Sum256([]byte("3")), Name: "same id", Role: rulesv1.Role_ROLE_POD, CreatedAt: at(3)},
		{ID: "yy", Hash: first.Hash, Name: "same secret", Role: rulesv1.Role_ROLE_POD, CreatedAt: at(3)},
	} {
		if err := b.CreateToken(b.ctx(), t); !errors.Is(err, ledger.ErrRefused) {
			b.Errorf("%s: %v, want %v", t.Name, err, ledger.ErrRefused)
		}
	}
	revoked := *first
	revoked.RevokedAt = at(5)
	b.same("revoked", must(b.RevokeToken(b.ctx(), "zz", at(5)))(b), &revoked)
	b.same("revoked again", must(other.RevokeToken(b.ctx(), "zz", at(6)))(b), &revoked)
	b.same("all", must(b.Tokens(b.ctx()))(b), []*ledger.Token{&revoked, second})
	for _, id := range []string{"nobody", "", "a\x00b", "' OR '1'='1"} {
		if _, err := b.RevokeToken(b.ctx(), id, at(5)); !errors.Is(err, ledger.ErrNotFound) {
			b.Errorf("revoking %q: %v, want %v", id, err, ledger.ErrNotFound)
		}
	}
}
