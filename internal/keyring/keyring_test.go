package keyring_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/certvault/certvault/internal/keyring"
)

func TestConcurrentOpenSharesOneKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	macs := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range macs {
		wg.Go(func() {
			r, err := keyring.Open(dir)
			if err != nil {
				t.Error(err)
				return
			}
			if macs[i], err = r.MAC(keyring.CapabilityURL, []byte("x")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, m := range macs {
		if !bytes.Equal(m, macs[0]) {
			t.Fatal("concurrent calls of Open returned different keys, want one key")
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the folder contains %v, want only the key file; error %v", entries, err)
	}
	info, err := entries[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode of the key file = %v, want 0600; error %v", info.Mode(), err)
	}
}

func TestSealedSecretIsBoundToUseAndContext(t *testing.T) {
	t.Parallel()
	r, err := keyring.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := r.Seal(keyring.WebhookSecret, []byte("whsec"), []byte("endpoint 1"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("whsec")) {
		t.Fatal("the sealed secret contains the plain text")
	}
	if got, err := r.Open(keyring.WebhookSecret, sealed, []byte("endpoint 1")); err != nil || string(got) != "whsec" {
		t.Fatalf("Open = %q, error %v; want whsec", got, err)
	}
	if _, err := r.Open(keyring.WebhookSecret, sealed, []byte("endpoint 2")); err == nil {
		t.Fatal("Open accepts the secret with another context")
	}
	if _, err := r.Open(keyring.CapabilityURL, sealed, []byte("endpoint 1")); err == nil {
		t.Fatal("Open accepts the secret with the key of another use")
	}
}

func TestDamagedKeyFileIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "master.key")
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.Open(dir); err == nil {
		t.Fatal("Open accepts a damaged key file, want an error")
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "short" {
		t.Fatalf("the file is %q, want it unchanged; error %v", got, err)
	}
}

func TestOpenExistingCreatesNoKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := keyring.OpenExisting(filepath.Join(dir, "master.key")); !errors.Is(err, keyring.ErrMissing) {
		t.Fatalf("OpenExisting: error = %v, want ErrMissing", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("after OpenExisting, the folder contains %v, want no files; error %v", entries, err)
	}
	if _, err := keyring.Open(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := keyring.OpenExisting(filepath.Join(dir, "master.key")); err != nil {
		t.Errorf("OpenExisting of an existing key: error = %v, want none", err)
	}
}
