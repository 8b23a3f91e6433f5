package main

import (
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestSetupLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, errs := certvault(t, "", "setup-link", "--data", dir); code != exitRefused || !strings.Contains(errs, "contains no vault") {
		t.Errorf("setup-link without a vault: exit code = %d, message %q, want 1 and the reason", code, errs)
	}
	dbtest.CopyTemplate(t, dir)
	if code, _, errs := certvault(t, "", "setup-link", "--data", dir); code != exitRefused || !strings.Contains(errs, "--base-url") {
		t.Errorf("setup-link without a base URL: exit code = %d, message %q, want 1 and a message about --base-url", code, errs)
	}
	var link struct{ URL string }
	runJSON(t, "", &link, "setup-link", "--data", dir, "--base-url", "https://vault.example.org/")
	if secret, ok := strings.CutPrefix(link.URL, "https://vault.example.org/setup?token="); !ok || len(secret) < 20 {
		t.Errorf("link = %q, want https://vault.example.org/setup?token= and a secret", link.URL)
	}
	createInstitution(t, dir)
	if code, _, errs := certvault(t, "", "setup-link", "--data", dir, "--base-url", "https://vault.example.org"); code != exitRefused || !strings.Contains(errs, "already has an owner") {
		t.Errorf("setup-link with an owner: exit code = %d, message %q, want 1 and the reason", code, errs)
	}
}
