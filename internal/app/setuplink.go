package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/certvault/certvault/internal/config"
)

// printSetupLink prints the base URL and, for a self-signed TLS certificate, advice about the warning of
// browsers. If the vault has no owner yet, printSetupLink also prints a new one-time set-up link, in the
// last line. If the output cannot be written, printSetupLink only logs the error, so that the vault
// starts anyway.
func (a *App) printSetupLink(ctx context.Context) error {
	if !a.cfg.Has(config.Web) {
		return nil
	}
	text := fmt.Sprintf("Certvault is available at %s\n", a.cfg.BaseURL)
	if a.drill {
		text += "This vault is a drill of a restore. It sends no mail and no webhooks.\n"
	}
	text += a.certificateHint()
	owned, err := a.Accounts.HasOwner(ctx)
	if err != nil {
		return err
	}
	if !owned {
		secret, err := a.Accounts.NewSetupLink(ctx)
		if err != nil {
			return err
		}
		text += fmt.Sprintf("Set it up within an hour: %s\n", a.links.To("/setup?token="+secret))
	}
	if _, err := io.WriteString(a.stdout, text); err != nil {
		a.log.WarnContext(ctx, "printing the address and the set-up link failed", slog.Any("error", err))
	}
	return nil
}
