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

// retentionFlags are the flags for the retention periods of an institution.
type retentionFlags struct {
	KeepFailed  *int `help:"Days to keep failed certificates, 30 to 3653; 0 keeps them indefinitely." placeholder:"DAYS"`
	KeepRevoked *int `help:"Days to keep files of revoked certificates, 30 to 3653; 0 keeps them indefinitely." placeholder:"DAYS"`
	KeepMail    *int `help:"Days to keep addresses of mail and webhook events, 30 to 3653; 0 keeps them indefinitely." placeholder:"DAYS"`
	Yes         bool `help:"Confirm changes that delete data whose retention period has ended. Without this flag, such changes are not made, and the data is only counted."`
}

// apply sets the values of the given flags in an institution's retention periods.
func (k *retentionFlags) apply(retention *account.Retention) {
	set(&retention.Failed, k.KeepFailed)
	set(&retention.Revoked, k.KeepRevoked)
	set(&retention.Mail, k.KeepMail)
}

// confirm returns an error if the flags change the retention periods without --yes, and the new
// periods are invalid or would delete data at once. In the second case, the error says how many records
// the change affects.
func (k *retentionFlags) confirm(ctx context.Context, base *app.Base, id int64) error {
	old, err := base.Accounts.Retention(ctx, id)
	if err != nil {
		return err
	}
	changed := old
	k.apply(&changed)
	if k.Yes || changed == old {
		return nil
	}
	if err := changed.Check(); err != nil {
		return err
	}
	at := time.Now()
	failed, revoked, err := cert.Expired(ctx, base.DB, at, id, changed)
	if err != nil {
		return err
	}
	mails, events, err := recipient.Expired(ctx, base.DB, at, id, changed.Mail)
	if err != nil {
		return err
	}
	if failed+revoked+mails+events == 0 {
		return nil
	}
	return fault.New(fault.Conflict, fmt.Sprintf(
		"This would permanently remove %s, the files of %s, and the addresses of %s and %s. Add --yes to confirm.",
		plural(failed, "failed certificate"), plural(revoked, "revoked certificate"), plural(mails, "message"), plural(events, "webhook event")))
}

// printRetention prints the retention periods as text.
func printRetention(w io.Writer, k account.Retention) {
	days := func(n int) string {
		if n == 0 {
			return "indefinitely"
		}
		return fmt.Sprintf("%d days", n)
	}
	printf(w, "Retention: failed certificates %s; files of revoked certificates %s; addresses of mail and events %s.\n", days(k.Failed), days(k.Revoked), days(k.Mail))
}
