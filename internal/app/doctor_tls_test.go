package app

import (
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
			t.Errorf("%+v after %d days: %+v, want %q", c.files, c.days, list, c.want)
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
	// Earlier releases stored certificates in a folder, with the name of the domain.
	dir := acmeFolder(s)
	storeACME(t, acme.NewCache(b.DB, b.Keyring, dir), domain+"@"+settings.ACMEDirectory, domain)
	for days, good := range map[int]bool{0: true, 398: false} {
		if list := ExamineTLS(t.Context(), s, settings, time.Now().AddDate(0, 0, days)); len(list) != 1 || list[0].Good != good {
			t.Errorf("after %d days: findings = %+v, want good = %v", days, list, good)
		}
	}
}
