package backup_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/backup"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// TestRestoredVaultRevokesCredentials checks that a restored vault can revoke credentials that were created
// after the backup. It also checks that no other certificate gets their places in the status lists.
func TestRestoredVaultRevokesCredentials(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		credentialOf := func(v *vaulttest.Vault, inst int64, uuid string) *issuer.Credential {
			t.Helper()
			c, err := v.Certs.ByUUID(ctx, inst, uuid)
			ok(err)
			found, err := v.Issuer.Credential(ctx, c)
			ok(err)
			return found
		}
		var certificates []*cert.Certificate
		o := newOriginal(t, d, func(o *original) {
			_, err := o.Issuer.DIDDocument(ctx, o.inst) // the backup must contain the keys
			ok(err)
			certificates = append(certificates, o.Upload(o.inst, "Dan Eze", "diploma.pdf"), o.Upload(o.inst, "Eva Lim", "diploma.pdf"))
			o.Settle()
		})
		known, corrected := certificates[0].UUID, certificates[1].UUID
		// The backup contains neither the following credentials nor the certificate of the last one.
		lost := []*issuer.Credential{credentialOf(o.Vault, o.inst.ID, known), credentialOf(o.Vault, o.inst.ID, corrected)}
		_, err := o.Recipients.CorrectEmail(ctx, o.inst.ID, corrected, "eva@example.org", nil)
		ok(err)
		lost = append(lost, credentialOf(o.Vault, o.inst.ID, corrected))
		unknown := o.Upload(o.inst, "Fay Orr", "diploma.pdf")
		o.Settle()
		lost = append(lost, credentialOf(o.Vault, o.inst.ID, unknown.UUID))

		s := target(t, d)
		_, err = restore(t, backup.RestoreOptions{Dir: o.backup, Target: s})
		ok(err)
		copied := reopen(t, s)
		v := vaulttest.New(t, copied, func(deps *vault.Deps) {
			deps.Blobs, deps.Keyring = o.Blobs, o.Keyring
			deps.Keys = authority.New(copied, authority.Options{Now: o.Now, Folder: o.KeyFolder})
		})
		verdict := func(c *issuer.Credential) credential.Verdict {
			t.Helper()
			r, err := credential.Verify(ctx, []byte(c.VC), credential.Options{Fetcher: v.Issuer.Documents(credential.Offline{}), Now: v.Now()})
			ok(err)
			return r.Verdict
		}
		places := map[string]bool{}
		for i, c := range lost {
			places[c.List+" "+strconv.Itoa(c.Position)] = true
			if got := verdict(c); got != credential.Valid {
				t.Errorf("after the restore, credential %d is %s, want %s", i, got, credential.Valid)
			}
		}
		if c := credentialOf(v, o.inst.ID, known); c.Entry != lost[0].Entry {
			t.Errorf("the place of the known certificate in the status list is %v, want %v", c.Entry, lost[0].Entry)
		}
		later := v.Upload(o.inst, "Gus Ito", "diploma.pdf")
		v.Settle()
		if c := credentialOf(v, o.inst.ID, later.UUID); len(places) != 4 || places[c.List+" "+strconv.Itoa(c.Position)] {
			t.Error("two certificates have the same place in a status list")
		}
		for _, uuid := range []string{known, corrected} {
			_, err = v.Certs.Revoke(ctx, o.inst.ID, uuid, cert.Revocation{Reason: "issued by mistake"})
			ok(err)
		}
		v.Advance(time.Minute - time.Second)
		for i, c := range lost[:3] {
			if got := verdict(c); got != credential.Invalid {
				t.Errorf("after the revocation, credential %d is %s, want %s", i, got, credential.Invalid)
			}
		}
		if got := verdict(lost[3]); got != credential.Valid {
			t.Errorf("the credential of the unknown certificate is %s, want %s", got, credential.Valid)
		}
		// RevokeFile is only for credentials of certificates that the vault does not have.
		if _, err := v.Issuer.RevokeFile(ctx, []byte(lost[0].VC), ""); !fault.Is(err, fault.Conflict) {
			t.Errorf("RevokeFile for a known certificate: error = %v, want fault.Conflict", err)
		}
		_, err = v.Issuer.RevokeFile(ctx, []byte(lost[3].SDJWT), "withdrawn")
		ok(err)
		v.Advance(time.Minute - time.Second)
		if got := verdict(lost[3]); got != credential.Invalid {
			t.Errorf("after RevokeFile, the credential of the unknown certificate is %s, want %s", got, credential.Invalid)
		}
	})
}
