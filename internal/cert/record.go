package cert

import (
	"context"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordTx writes what somebody did to a certificate into the institution's
// audit log. What the vault does by itself on the way is not written: an entry
// for a batch stands for all of its certificates.
func recordTx(ctx context.Context, tx *db.Tx, action audit.Action, c *Certificate, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: c.InstitutionID, At: c.UpdatedAt, Action: action, Detail: detail,
		Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
	})
}
