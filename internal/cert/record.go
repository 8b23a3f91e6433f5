package cert

import (
	"context"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
)

// recordTx records an operation on a certificate in the audit log of its institution. It is not
// called for automatic changes, nor for the creation of a batch's certificates, because the batch has
// its own entry.
func recordTx(ctx context.Context, tx *db.Tx, action audit.Action, c *Certificate, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: c.InstitutionID, At: c.UpdatedAt, Action: action, Detail: detail,
		Subject: audit.Subject{Type: "certificate", ID: c.UUID, Name: c.ReferenceID},
	})
}
