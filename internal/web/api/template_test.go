package api

import (
	"bytes"
	"net/http"
	"reflect"
	"slices"
	"testing"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/token"
	"github.com/certvault/certvault/internal/vaulttest"
)

// Certificates from templates are in the list of general certificates, and not in the list of vault
// certificates. A token that has only permissions for vault certificates cannot read them.
func TestCertificatesFromTemplates(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d, 0)
		uploaded := v.upload("diploma.pdf")["uuid"].(string)
		b := v.Issue(v.inst, "Bo Ek", "Missing Letters")
		v.Finish(v.inst, b)
		record := data(t, v.get("/business/batches/"+b.UUID))
		template := map[string]any{"id": "01900000-0000-7000-8000-000000000004", "name": "Diploma", "version": 2.0}
		if record["source"] != "template" || !reflect.DeepEqual(record["template"], template) || record["approved"] != 1.0 || record["failed"] != 1.0 {
			t.Errorf("batch = %v, want the source template, the template Diploma, one approved and one failed certificate", record)
		}
		entries := record["entries"].([]any)
		id, failed := entries[0].(map[string]any)["uuid"].(string), entries[1].(map[string]any)["uuid"].(string)
		all := v.general("")
		if len(all) != 3 || !slices.Contains(all, id) {
			t.Errorf("general certificates = %v, want 3 with %s", all, id)
		}
		if got := v.general("?source=template"); len(got) != 2 || slices.Contains(got, uploaded) {
			t.Errorf("with source=template: %v, want the two from the template", got)
		}
		if got := v.general("?source=vault"); !slices.Equal(got, []string{uploaded}) {
			t.Errorf("with source=vault: %v, want the uploaded one", got)
		}
		if a := v.get("/business/certificates?source=paper"); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("with an unknown source: status = %d, want 422", a.Status)
		}
		general := data(t, v.get("/business/certificates/"+id))
		checkGeneral(t, "approved", withoutBatch(general))
		if want := map[string]any{"value": "template", "label": "Template"}; !reflect.DeepEqual(general["source"], want) {
			t.Errorf("source = %v, want %v", general["source"], want)
		}
		if a := v.get("/business/certificates/" + id + "/download"); a.Status != http.StatusOK || !bytes.HasPrefix(a.Body, vaulttest.Base) || !bytes.HasSuffix(a.Body, []byte(tail)) {
			t.Errorf("download: status = %d, %d bytes, want 200 with the verified PDF", a.Status, len(a.Body))
		}
		if got := v.get("/business/certificate-vault").json(t)["data"].([]any); len(got) != 1 {
			t.Errorf("vault certificates = %v, want only the uploaded one", got)
		}
		vault := data(t, v.get("/business/certificate-vault/"+failed))
		if file := vault["file"].(map[string]any); vault["trigger_context"] != "template" || file["size"] != 0.0 || file["sha256"] != "" || file["name"] != "BSc Physics.pdf" {
			t.Errorf("the record of a certificate that was not drawn is %v, want the file BSc Physics.pdf with the size 0 and no digest", vault)
		}
		if a := v.postJSON("/business/certificate-vault/"+failed+"/retry", ""); a.Status != http.StatusOK {
			t.Errorf("retry: status = %d, want 200; body %s", a.Status, a.Body)
		}
		v.secret = v.token(v.inst, nil, token.VaultList, token.VaultView, token.VaultDownload, token.VaultRevoke, token.VaultUpdate)
		if got := v.general(""); !slices.Equal(got, []string{uploaded}) {
			t.Errorf("a token for vault certificates lists %v, want the uploaded one", got)
		}
		if a := v.get("/business/certificates?source=template"); a.Status != http.StatusUnprocessableEntity {
			t.Errorf("a token for vault certificates filters by source=template: status = %d, want 422", a.Status)
		}
		for _, path := range []string{"/business/certificates/" + id, "/business/certificates/" + id + "/download", "/business/certificate-vault/" + id, "/business/certificate-vault/" + id + "/download", "/business/batches/" + b.UUID} {
			if a := v.get(path); a.Status != http.StatusNotFound {
				t.Errorf("%s: status = %d, want 404", path, a.Status)
			}
		}
		for _, path := range []string{"/retry", "/revoke"} {
			if a := v.postJSON("/business/certificate-vault/"+id+path, `{"reason": "x"}`); a.Status != http.StatusNotFound {
				t.Errorf("%s: status = %d, want 404", path, a.Status)
			}
		}
		if got := v.get("/business/batches").json(t)["data"].([]any); len(got) != 0 {
			t.Errorf("a token for vault certificates lists the batches %v, want none", got)
		}
	})
}

// withoutBatch returns a copy of a record in which batch and batch_id are null, as checkGeneral requires.
func withoutBatch(record map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range record {
		if out[name] = value; name == "batch" || name == "batch_id" {
			out[name] = nil
		}
	}
	return out
}
