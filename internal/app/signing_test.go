package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/config"
)

// TestKeysAreCreatedOnce checks that a key is created once for each institution, and that a lost
// key is not created again.
func TestKeysAreCreatedOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	base, err := CreateBase(t.Context(), config.Storage{Data: dir}, "https://vault.example")
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
	roots, err := base.Keys.Roots()
	if err != nil || len(roots) != 1 || roots[0].Subject.CommonName != "Certvault document signing vault.example" {
		t.Fatalf("roots = %v, %v, want one for vault.example", roots, err)
	}
	before, err := base.Keys.Certificates(first)
	if err != nil {
		t.Fatal(err)
	}
	second := institution("TWO")
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := base.Keys.Certificates(first); err != nil || len(after) != 1 || !after[0].Chain[0].Equal(before[0].Chain[0]) {
		t.Errorf("the first key was replaced: %v, %v", after, err)
	}
	if _, _, err := base.Keys.Signer(t.Context(), second); err != nil {
		t.Error(err)
	}

	for _, lost := range []string{"institution", "root"} {
		if err := os.RemoveAll(filepath.Join(dir, "keys", lost)); err != nil {
			t.Fatal(err)
		}
	}
	if err := base.CreateKeys(t.Context()); err != nil {
		t.Errorf("CreateKeys without an institution that requires a key: %v", err)
	}
	third := institution("THREE")
	err = base.CreateKeys(t.Context())
	if f, ok := errors.AsType[*authority.Fault](err); !ok || f.Code != authority.CodeMissing {
		t.Errorf("a new key without the lost root: error = %v, want CodeMissing", err)
	}
	for _, id := range []string{first, second, third} {
		if _, _, err := base.Keys.Signer(t.Context(), id); err == nil {
			t.Errorf("the key of %s was created again", id)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "keys", "root")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the root was created again: %v", err)
	}
}
