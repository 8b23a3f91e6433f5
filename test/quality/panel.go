package main

import (
	"context"
	"net/http"

	"github.com/certvault/certvault/test/vault"
)

// panelPages adds the pages of the panel that show certificates, settings, numbers or mail, with the
// session of the institution's owner.
func (f *fixture) panelPages(ctx context.Context, v *vault.Vault, slug string, made map[string]*vault.Certificate) error {
	session, err := v.SignIn(ctx, "owner@nwu.example", vault.OwnerPassword)
	if err != nil {
		return err
	}
	at := v.URL + "/panel/" + slug
	certificates := at + "/certificates"
	for _, p := range []struct {
		name, address string
		status        int
	}{
		{"dashboard", at, http.StatusOK}, {"dashboard-year", at + "?days=365", http.StatusOK},
		{"certificates", certificates, http.StatusOK}, {"certificates-none", certificates + "?q=unknown", http.StatusOK},
		{"certificates-problem", certificates + "?from=2026-13-01", http.StatusUnprocessableEntity},
		{"certificate", certificates + "/" + made["valid"].UUID + "?signature=1", http.StatusOK}, {"certificate-revoked", certificates + "/" + made["revoked"].UUID, http.StatusOK},
		{"certificate-damaged", certificates + "/" + made["damaged"].UUID, http.StatusOK}, {"certificate-arabic", certificates + "/" + made["arabic"].UUID, http.StatusOK},
		{"certificate-replaced", certificates + "/" + made["replaced"].UUID, http.StatusOK},
		{"certificate-replacement", certificates + "/" + made["replacement"].UUID, http.StatusOK},
		{"certificate-expired", certificates + "/" + made["expired"].UUID, http.StatusOK},
		{"certificates-replaced", certificates + "?replaced=true", http.StatusOK},
		{"settings-mail-replacement", at + "/settings/mail?mail=replacement", http.StatusOK},
		{"upload-replace", at + "/upload?replaces=" + made["valid"].UUID, http.StatusOK},
		{"certificate-revoke", certificates + "/" + made["valid"].UUID + "/revoke", http.StatusOK},
		{"certificate-email", certificates + "/" + made["valid"].UUID + "/email", http.StatusOK},
		{"settings", at + "/settings", http.StatusOK}, {"settings-public", at + "/settings/public", http.StatusOK}, {"settings-mail", at + "/settings/mail", http.StatusOK},
		{"settings-mail-arabic", at + "/settings/mail?language=ar", http.StatusOK}, {"settings-stamps", at + "/settings/stamps", http.StatusOK},
		{"settings-retention", at + "/settings/retention", http.StatusOK},
		{"settings-keys", at + "/settings/keys", http.StatusOK}, {"settings-key-rotate", at + "/settings/keys/rotate", http.StatusOK},
		{"verifications", at + "/verifications", http.StatusOK}, {"verifications-quarter", at + "/verifications?days=90", http.StatusOK},
	} {
		f.show(p.name, p.address, p.status, session)
	}
	// The pages of verifications show these requests within a minute.
	for _, c := range made {
		if _, err := f.client.Get(ctx, "/verify/"+c.ReferenceID); err != nil {
			return err
		}
	}
	return f.waitingMail(ctx, v, at, session)
}
