package gateway

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/shiplane/limits/gateway/internal/keys"
	"github.com/shiplane/limits/libs/serve"
)

// hashKey is the command that makes entries of a key file.
type hashKey struct {
	New     bool   `env:"-" help:"Make a new key and print it to standard error; without this the key is read from standard input."`
	Account string `required:"" placeholder:"ID" env:"-" help:"Account that the key belongs to, as in acct_7Q2."`
	Plan    string `required:"" placeholder:"ID" env:"-" help:"Plan of the account, one of the rule file's."`
	Name    string `placeholder:"TEXT" env:"-" help:"What the key is for, for people."`
}

// Help is shown by gateway hash-key --help.
func (*hashKey) Help() string {
	return `A key is never an argument, where other users of the machine could see it. As in:

  gateway hash-key --new --account acct_7Q2 --plan growth >> keys.yaml`
}

const (
	keyRead     = 64 << 10 // bytes of standard input looked at
	guessableTo = 20       // bytes; a shorter key may be found by trying
)

func (c *hashKey) run(stdin io.Reader, stdout, stderr io.Writer) error {
	key := keys.Generate()
	if !c.New {
		text, err := io.ReadAll(io.LimitReader(stdin, keyRead))
		if err != nil {
			return fmt.Errorf("reading the key from standard input: %w", err)
		}
		key = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	}
	if err := keys.Validate(key); err != nil {
		return serve.Usage(err)
	}
	entry, err := keys.Entry(key, keys.Key{Account: c.Account, Plan: c.Plan, Name: c.Name})
	if err != nil {
		return serve.Usage(err)
	}
	if c.New {
		fmt.Fprintf(stderr, "The key, shown this once: %s\n", key)
	} else if len(key) < guessableTo {
		fmt.Fprintf(stderr, "warning: a key of %d characters may be guessed from its hash; --new makes one that cannot\n", len(key))
	}
	if _, err := io.WriteString(stdout, entry); err != nil {
		return errors.Join(errors.New("the entry could not be written"), err)
	}
	return nil
}
