package app

import (
	"net/http"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/token"
)

// driveCredentials calls the operations for credentials, and requests the addresses to which a
// credential refers.
func (d *driver) driveCredentials() {
	d.Helper()
	ctx := d.Context()
	all := d.token(token.All...)
	created := d.approved()
	path := "/business/certificates/" + created.UUID + "/credential"
	for query, accept := range map[string]string{"": "", "?format=jwt": "", "?format=sd-jwt": "", "?format=png": "", "?format=svg": "", "?": "application/json"} {
		header := http.Header{}
		if accept != "" {
			header.Set("Accept", accept)
		}
		if status := d.send(http.MethodGet, path+query, all, header, ""); status != http.StatusOK {
			d.Errorf("the credential with the query %q: status = %d, want 200", query, status)
		}
	}
	if status := d.send(http.MethodGet, path+"?format=exe", all, nil, ""); status != http.StatusUnprocessableEntity {
		d.Errorf("an unknown format: status = %d, want 422", status)
	}
	public := "/verify/" + created.ReferenceID + "/credential"
	if status := d.send(http.MethodGet, public, "", nil, ""); status != http.StatusNotFound {
		d.Errorf("the public credential before downloads are allowed: status = %d, want 404", status)
	}
	d.must(d.app.Accounts.SetPublic(ctx, d.inst.ID, account.Public{AllowDownload: true}))
	if status := d.send(http.MethodGet, public, "", nil, ""); status != http.StatusOK {
		d.Errorf("the public credential: status = %d, want 200", status)
	}
	c, err := d.app.Certs.ByUUID(ctx, d.inst.ID, created.UUID)
	d.must(err)
	found, err := d.app.Issuer.Credential(ctx, c)
	d.must(err)
	for _, accept := range []string{"application/json", "application/statuslist+jwt"} {
		if status := d.send(http.MethodGet, "/credentials/status/"+found.List, "", http.Header{"Accept": {accept}}, ""); status != http.StatusOK {
			d.Errorf("the status list as %s: status = %d, want 200", accept, status)
		}
	}
	if status := d.send(http.MethodGet, "/institutions/"+d.inst.UUID+"/did.json", "", nil, ""); status != http.StatusOK {
		d.Errorf("the DID document: status = %d, want 200", status)
	}
	if _, err := d.client.Revoke(ctx, created.UUID, "issued by mistake", ""); err != nil {
		d.Fatal(err)
	}
	if status := d.send(http.MethodGet, public, "", nil, ""); status != http.StatusNotFound {
		d.Errorf("the public credential after the revocation: status = %d, want 404", status)
	}
	if status := d.send(http.MethodGet, path, all, nil, ""); status != http.StatusOK {
		d.Errorf("the credential with a token after the revocation: status = %d, want 200", status)
	}
	d.must(d.app.Accounts.SetPublic(ctx, d.inst.ID, account.Public{}))
}
