package auth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/shiplane/limits/libs/filewatch"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/ledger"
)

// tokenFileMax bounds a file that holds one token.
const tokenFileMax = 4 << 10 // bytes

// First is a token that exists before anybody can ask for one.
type First struct {
	File string // written with mode 0600 if it is not there; one that is there is read
	Name string
	Role rulesv1.Role
}

// Bootstrap makes the first tokens of a store that has none, and does nothing to
// one that has. Where several instances start at once on one store, each token is
// made by one of them: the files of the others stay unwritten.
//
// A file that is there already is read, so that a store in memory has the same
// token after each start.
func (k *Keyring) Bootstrap(ctx context.Context, firsts []First) error {
	all, err := k.store.Tokens(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		return nil
	}
	for _, first := range firsts {
		if err := k.bootstrap(ctx, first); err != nil {
			return fmt.Errorf("the first token with %v: %w", first.Role, err)
		}
	}
	return k.refresh(ctx)
}

// bootstrap writes the file before it stores the token: should the process die
// between, the next start finds a store without tokens, and reads the file.
func (k *Keyring) bootstrap(ctx context.Context, first First) error {
	t, text, err := k.firstToken(first)
	if err != nil {
		return err
	}
	undo := func() error { return nil }
	if text != "" {
		if err := writeSecret(first.File, text); err != nil {
			return err
		}
		undo = func() error { return os.Remove(first.File) }
	}
	if err := k.store.CreateToken(ctx, t); err != nil {
		return errors.Join(err, undo())
	}
	all, err := k.store.Tokens(ctx)
	if err != nil {
		return err
	}
	same := func(o *ledger.Token) bool {
		return o.Name == first.Name && o.Role == first.Role && o.RevokedAt.IsZero()
	}
	if i := slices.IndexFunc(all, same); i >= 0 && all[i].ID != t.ID {
		_, err := k.store.RevokeToken(ctx, t.ID, k.now()) // another instance was earlier
		return errors.Join(err, undo())
	}
	if text != "" {
		k.log.Info("the first token was written", "role", roleName(first.Role), "file", first.File, "id", t.ID)
	}
	return nil
}

// firstToken reads the token of a file; the text is returned of one that was drawn
// because there is no file.
func (k *Keyring) firstToken(first First) (t *ledger.Token, text string, err error) {
	content, err := filewatch.Read(first.File, tokenFileMax)
	if errors.Is(err, fs.ErrNotExist) {
		return newToken(first.Name, first.Role, 0, k.now())
	}
	if err != nil {
		return nil, "", err
	}
	if t, err = parse(strings.TrimSpace(string(content))); err != nil {
		return nil, "", fmt.Errorf("%s holds %w", first.File, err)
	}
	t.Name, t.Role, t.CreatedAt = first.Name, first.Role, k.now()
	return t, "", nil
}

// writeSecret writes a new file that only its owner can read.
func writeSecret(path, text string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteString(text + "\n"); err != nil {
		return err
	}
	return f.Sync()
}

// roleName is how a role is said in JSON and logs.
func roleName(role rulesv1.Role) string {
	return strings.ToLower(strings.TrimPrefix(role.String(), "ROLE_"))
}
