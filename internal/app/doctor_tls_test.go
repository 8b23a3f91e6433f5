package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/acme"
	"github.com/certvault/certvault/internal/config"
)

func TestDoctorExaminesTLSFiles(t *testing.T) {
	t.Parallel()
	s := config.Storage{Data: t.TempDir()}
	if list := ExamineTLS(t.Context(), s, config.TLS{}, time.Now()); len(list) != 0 {
		t.Errorf("without a certificate: findings = %+v, want none", list)
	}
	dir := filepath.Join(s.Data, "tls")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	now := time.Now()
	other := filepath.Join(t.TempDir(), "key.pem")
	for _, k := range []string{other, key} { // the certificate belongs to the second key
		if err := createCertificate(dir, cert, k, "vault.example.org", now); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		files config.TLS
		days  int
		want  string // "" means good
	}{
		{config.TLS{}, 0, ""},
		{config.TLS{}, 390, "expires on"},
		{config.TLS{}, 398, "expired on"},
		{config.TLS{}, -1, "valid only from"},
		{config.TLS{TLSCert: cert}, 0, ""},
		{config.TLS{TLSCert: cert}, 398, "expired on"},
		{config.TLS{TLSCert: cert, TLSKey: key}, 0, ""},
		{config.TLS{TLSCert: cert, TLSKey: key}, 390, "expires on"},
		{config.TLS{TLSCert: cert, TLSKey: other}, 0, "a running server continues"},
		{config.TLS{TLSCert: key}, 0, "contains no certificate"},
		{config.TLS{TLSCert: filepath.Join(dir, "missing.pem")}, 0, "missing.pem"},
	} {
		list := ExamineTLS(t.Context(), s, c.files, now.AddDate(0, 0, c.days))
		if len(list) != 1 || list[0].Good != (c.want == "") || !strings.Contains(list[0].Detail, c.want) {
			t.Errorf("%+v after %d days: findings = %+v, want %q", c.files, c.days, list, c.want)
		}
	}
}

// TestDoctorExaminesTheAccountOfACME checks that doctor shows the key id of --acme-eab-kid but not the
// key. It also checks that doctor reports a key that is missing, invalid or readable by other users.
func TestDoctorExaminesTheAccountOfACME(t *testing.T) {
	t.Parallel()
	s, file := config.Storage{Data: t.TempDir()}, filepath.Join(t.TempDir(), "eab")
	if err := os.WriteFile(file, []byte("c2VjcmV0LWtleQ==\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  config.TLS
		mode os.FileMode
		good bool
		want string
	}{
		{config.TLS{ACMEKeyID: "kid-1", ACMEKeyFile: file}, 0o600, true, `"kid-1"`},
		{config.TLS{ACMEKeyID: "kid-1", ACMEKey: "c2VjcmV0LWtleQ"}, 0o600, true, `"kid-1"`},
		{config.TLS{ACMEKeyID: "kid-1", ACMEKeyFile: file}, 0o644, false, "chmod 600"},
		{config.TLS{ACMEKeyID: "kid-1"}, 0o600, false, "--acme-eab-key-file or CERTVAULT_ACME_EAB_KEY"},
		{config.TLS{ACMEKeyID: "kid-1", ACMEKey: "secret+key"}, 0o600, false, "base64url"},
	} {
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		c.set.ACMEDomain = "vault.example.org"
		list := ExamineTLS(t.Context(), s, c.set, time.Now())
		if len(list) != 2 || list[0].Name != "ACME account" || list[0].Good != c.good || (list[0].Remedy == "") != c.good || !strings.Contains(list[0].Detail, c.want) {
			t.Errorf("%+v: findings = %+v, want good = %v and %q", c.set, list, c.good, c.want)
		}
		if text := fmt.Sprintf("%+v", list); strings.Contains(text, "c2VjcmV0") || strings.Contains(text, "secret") {
			t.Errorf("the findings contain the key: %s", text)
		}
	}
}

func TestDoctorExaminesTheCertificateOfACME(t *testing.T) {
	t.Parallel()
	const domain = "vault.example.org"
	s := config.Storage{Data: t.TempDir()}
	b, err := CreateBase(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	defer b.DB.Close()
	settings := config.TLS{ACMEDomain: domain, ACMEDirectory: "https://ca.example.org/directory"}
	if list := ExamineTLS(t.Context(), s, settings, time.Now()); len(list) != 1 || list[0].Good || !strings.Contains(list[0].Detail, "no certificate has been obtained") {
		t.Errorf("without a certificate: findings = %+v, want one problem", list)
	}
	dir := acmeFolder(s)
	storeACME(t, acme.NewCache(b.DB, b.Keyring, dir), domain+"@"+settings.ACMEDirectory, domain)
	for days, good := range map[int]bool{0: true, 398: false} {
		if list := ExamineTLS(t.Context(), s, settings, time.Now().AddDate(0, 0, days)); len(list) != 1 || list[0].Good != good {
			t.Errorf("after %d days: findings = %+v, want good = %v", days, list, good)
		}
	}
}
