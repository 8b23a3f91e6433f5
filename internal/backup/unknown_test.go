package backup_test

import (
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
)

// The list states when a key was added to the vault. The certificate of an imported key may be older.
func TestUnknownKeyHasTheTimeOfItsImport(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t, dbtest.SQLite(t))
	inst := v.Institution("NWU", "Northwind University")
	v.Advance(time.Hour)
	certtest.ExpiringKey(t, v.Keys, inst.UUID, v.Now().AddDate(-1, 0, 0), v.Now().AddDate(1, 0, 0))
	imported := v.Now()
	v.Advance(time.Hour)
	u, err := backup.ListUnknown(t.Context(), account.New(v.DB, v.Now), token.New(v.DB, v.Now), v.Keys, v.Now())
	if err != nil || len(u.Keys) != 1 || !u.Keys[0].CreatedAt.Equal(imported) {
		t.Errorf("the unknown keys are %+v (error %v), want the key that was imported at %s", u.Keys, err, imported)
	}
}
