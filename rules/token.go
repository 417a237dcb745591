package rules

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
	rulesv1 "github.com/shiplane/limits/proto/shiplane/rules/v1"
	"github.com/shiplane/limits/rules/internal/auth"
)

// tokenCommand makes a token without asking a running service: whoever may write
// to the database needs nobody's leave.
type tokenCommand struct {
	storeFlags `embed:""`

	Role     string `required:"" placeholder:"viewer|editor|admin|pod" help:"What its holder may do."`
	Name     string `required:"" placeholder:"NAME" help:"Whose it is, as the audit log will say, 1 to 128 bytes."`
	Lifetime string `default:"0s" placeholder:"DURATION" help:"How long it holds, 1m to 87840h; 0s for ever (default 0s)."`
}

// Help is shown by rules token --help.
func (*tokenCommand) Help() string {
	return `The token is printed, and kept nowhere. Running services take it at once.`
}

func (c *tokenCommand) run(ctx context.Context, stdout, stderr io.Writer) error {
	var faults command.Faults
	var cfg Config
	c.read(&cfg, &faults)
	if cfg.Store == "" {
		faults.Add("store", c.Store, "is in the memory of a process: ask the service itself, by POST /v1/tokens")
	}
	role, ok := rulesv1.Role_value["ROLE_"+strings.ToUpper(c.Role)]
	if !ok || role == 0 {
		faults.Add("role", c.Role, "want viewer, editor, admin or pod")
	}
	lifetime, err := time.ParseDuration(c.Lifetime)
	if err != nil {
		faults.Add("lifetime", c.Lifetime, "want a duration, as 720h")
	}
	if err := faults.Err(); err != nil {
		return serve.Usage(err)
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	store, err := openStore(cfg, log)
	if err != nil {
		return serve.Usage(err)
	}
	defer store.Close()
	_, text, err := auth.NewKeyring(store, log, time.Now).Create(ctx, c.Name, rulesv1.Role(role), lifetime)
	if err != nil {
		return fmt.Errorf("making a token: %w", err)
	}
	_, err = fmt.Fprintln(stdout, text)
	return err
}
