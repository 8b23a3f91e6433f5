package backup_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/webhook"
)

// unknown returns the list of a vault.
func unknown(t *testing.T, v *vaulttest.Vault) *backup.Unknown {
	t.Helper()
	u, err := backup.ListUnknown(t.Context(), backup.Services{
		Accounts: account.New(v.DB, v.Now), Tokens: token.New(v.DB, v.Now), Hooks: webhook.New(v.DB, v.Keyring, v.Now), Keys: v.Keys,
	}, v.Now())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The list states when a key was added to the vault. The certificate of an imported key may be older.
func TestUnknownKeyHasTheTimeOfItsImport(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t, dbtest.SQLite(t))
	inst := v.Institution("NWU", "Northwind University")
	v.Advance(time.Hour)
	certtest.ExpiringKey(t, v.Keys, inst.UUID, v.Now().AddDate(-1, 0, 0), v.Now().AddDate(1, 0, 0))
	imported := v.Now()
	v.Advance(time.Hour)
	u := unknown(t, v)
	if len(u.Keys) != 1 || !u.Keys[0].CreatedAt.Equal(imported) {
		t.Errorf("the unknown keys are %+v, want the key that was imported at %s", u.Keys, imported)
	}
}

// An endpoint may have been removed after the backup, or its secret may have been rotated. The list states
// when its secret was created, and has no part of the URL that may contain a key.
func TestUnknownEndpoints(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := vaulttest.New(t, d)
		inst := v.Institution("NWU", "Northwind University")
		other := v.Institution("OTH", "Other University")
		hooks := webhook.New(d, v.Keyring, v.Now)
		create := func(institution int64, url string) *webhook.Endpoint {
			t.Helper()
			e, _, err := hooks.Create(t.Context(), institution, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		first := create(inst.ID, "https://hooks.example.org:8443/in/secret-key?token=secret-key")
		second := create(inst.ID, "https://b.example.org/hook")
		third := create(other.ID, "https://c.example.org/hook")
		removed := create(other.ID, "https://d.example.org/hook")
		if err := hooks.Delete(t.Context(), other.ID, removed.UUID); err != nil {
			t.Fatal(err)
		}
		v.Advance(48 * time.Hour)
		if _, _, err := hooks.Rotate(t.Context(), inst.ID, first.UUID); err != nil {
			t.Fatal(err)
		}
		rotated := v.Now()
		v.Advance(time.Hour)
		u := unknown(t, v)
		want := []backup.UnknownEndpoint{
			{Institution: inst.Slug, ID: second.UUID, Origin: "https://b.example.org", CreatedAt: second.CreatedAt, SecretAt: second.CreatedAt},
			{Institution: inst.Slug, ID: first.UUID, Origin: "https://hooks.example.org:8443", CreatedAt: first.CreatedAt, SecretAt: rotated},
			{Institution: other.Slug, ID: third.UUID, Origin: "https://c.example.org", CreatedAt: third.CreatedAt, SecretAt: third.CreatedAt},
		}
		if !slices.Equal(u.Endpoints, want) {
			t.Errorf("the endpoints are %+v, want %+v", u.Endpoints, want)
		}
		if summary := u.Summary(); !strings.HasSuffix(summary, " and 3 webhook endpoints") {
			t.Errorf("the summary is %q, want three webhook endpoints", summary)
		}
	})
}
