package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/app"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/recipient"
)

// retentionFlags are the retention periods of an institution.
type retentionFlags struct {
	KeepFailed  *int `help:"Days to keep failed certificates, 30 to 3653; 0 means forever." placeholder:"DAYS"`
	KeepRevoked *int `help:"Days to keep files of revoked certificates, likewise." placeholder:"DAYS"`
	KeepMail    *int `help:"Days to keep addresses of mail and webhook events, likewise." placeholder:"DAYS"`
	Yes         bool `help:"Remove what the new number of days excludes; without this flag, the command only reports it."`
}

// apply puts the flags given into an institution's settings.
func (k *retentionFlags) apply(keep *account.Retention) {
	set(&keep.Failed, k.KeepFailed)
	set(&keep.Revoked, k.KeepRevoked)
	set(&keep.Mail, k.KeepMail)
}

// confirm returns an error if the flags would remove records and --yes is not
// given. The error says how many.
func (k *retentionFlags) confirm(ctx context.Context, base *app.Base, id int64) error {
	was, err := base.Accounts.Retention(ctx, id)
	if err != nil {
		return err
	}
	now := was
	k.apply(&now)
	if k.Yes || now == was {
		return nil
	}
	if err := now.Check(); err != nil {
		return err
	}
	at := time.Now()
	failed, revoked, err := cert.Expired(ctx, base.DB, at, id, now)
	if err != nil {
		return err
	}
	mails, events, err := recipient.Expired(ctx, base.DB, at, id, now.Mail)
	if err != nil {
		return err
	}
	if failed+revoked+mails+events == 0 {
		return nil
	}
	return fault.New(fault.Conflict, fmt.Sprintf(
		"This would permanently remove: %d failed certificates, the files of %d revoked ones, the addresses of %d mails and %d webhook events. Add --yes to do so.",
		failed, revoked, mails, events))
}

// printRetention prints the retention periods as text.
func printRetention(w io.Writer, k account.Retention) {
	days := func(n int) string {
		if n == 0 {
			return "forever"
		}
		return fmt.Sprintf("%d days", n)
	}
	_, _ = fmt.Fprintf(w, "Kept: failed certificates %s; files of revoked ones %s; addresses of mail and events %s.\n", days(k.Failed), days(k.Revoked), days(k.Mail))
}
