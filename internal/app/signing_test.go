package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert/certtest"
	"github.com/certvault/certvault/internal/config"
)

// TestKeysAreCreatedOnce checks that a key is created once for each institution, and that a lost
// key is not created again.
func TestKeysAreCreatedOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	base, err := createBase(t, config.Storage{Data: dir}, "https://vault.example")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.DB.Close() })
	institution := func(prefix string) string {
		t.Helper()
		i, err := base.Accounts.CreateInstitution(t.Context(), account.NewInstitution{
			Name: "University " + prefix, Prefix: prefix, OwnerEmail: "a@example.org", OwnerName: "A", OwnerPassword: "correct horse battery",
		})
		if err != nil {
			t.Fatal(err)
		}
		return i.UUID
	}
	first := institution("ONE")
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	roots, err := base.Keys.Roots(t.Context())
	if err != nil || len(roots) != 1 || roots[0].Subject.CommonName != "Certvault document signing vault.example" {
		t.Fatalf("roots = %v, %v, want one for vault.example", roots, err)
	}
	before, err := base.Keys.Certificates(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	second := institution("TWO")
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := base.Keys.Certificates(t.Context(), first); err != nil || len(after) != 1 || !after[0].Chain[0].Equal(before[0].Chain[0]) {
		t.Errorf("keys of the first institution = %v, error = %v, want the same key as before", after, err)
	}
	if _, err := base.Keys.Signer(t.Context(), second); err != nil {
		t.Error(err)
	}

	if _, err := base.DB.Writer().ExecContext(t.Context(), `DELETE FROM signing_keys`); err != nil {
		t.Fatal(err)
	}
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Errorf("CreateKeys while no institution needs a new key: error = %v, want nil", err)
	}
	third := institution("THREE")
	err = base.CreateKeys(t.Context())
	if f, ok := errors.AsType[*authority.Fault](err); !ok || f.Code != authority.CodeMissing {
		t.Errorf("a new key without the lost root: error = %v, want CodeMissing", err)
	}
	for _, id := range []string{first, second, third} {
		if _, err := base.Keys.Signer(t.Context(), id); err == nil {
			t.Errorf("the key of %s was created again", id)
		}
	}
	if _, err := base.Keys.Roots(t.Context()); err == nil {
		t.Error("the root was created again")
	}
}

// TestExpiringSigningKeyIsReported checks that, from 90 days before the certificate of a signing
// key expires, the metric counts the institution and doctor reports the date.
func TestExpiringSigningKeyIsReported(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	base, err := createBase(t, config.Storage{Data: dir}, "https://vault.example")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = base.DB.Close() })
	i, err := base.Accounts.CreateInstitution(t.Context(), account.NewInstitution{
		Name: "University", Prefix: "ONE", OwnerEmail: "a@example.org", OwnerName: "A", OwnerPassword: "correct horse battery",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, test := range []struct {
		days, want int
	}{{91, 0}, {89, 1}, {2, 1}} {
		until := now.Add(time.Duration(test.days) * 24 * time.Hour)
		certtest.ExpiringKey(t, base.Keys, i.UUID, now.Add(-time.Hour), until)
		if n, err := base.Keys.Expiring(t.Context(), now.Add(authority.ExpiresSoon)); err != nil || n != test.want {
			t.Errorf("%d days before the expiry: %d institutions, error = %v, want %d", test.days, n, err, test.want)
		}
		detail, err := examineKeys(t.Context(), base.DB, base.Keys, now)
		if (err != nil) != (test.want > 0) || err != nil && !strings.Contains(err.Error(), until.UTC().Format(time.DateOnly)) {
			t.Errorf("%d days before the expiry: examineKeys = %q, error = %v, want an error with the date only within 90 days", test.days, detail, err)
		}
	}
	// On the last day before the expiry, the vault no longer signs with the key.
	expired := authority.New(base.DB, authority.Options{Folder: filepath.Join(dir, "keys"), Now: func() time.Time { return now.Add(36 * time.Hour) }})
	if _, err := examineKeys(t.Context(), base.DB, expired, now.Add(36*time.Hour)); err == nil || !strings.Contains(err.Error(), authority.CodeExpired) {
		t.Errorf("on the last day: examineKeys returned %v, want key_expired", err)
	}
}
