package issuer_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/authority"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/vaulttest"
)

// lostCredential is a credential for a certificate that the vault does not have.
type lostCredential struct {
	issuer, certificate string
	place               *issuer.Entry
	// key signs instead of the key of the institution, unless it is nil.
	key crypto.Signer
}

// lose returns a lost credential of an institution, with the place of the certificate with this id.
func lose(t testing.TB, v *vaulttest.Vault, inst *account.Institution, id int64) lostCredential {
	t.Helper()
	did, err := v.Issuer.DID(inst.UUID)
	ok(t, err)
	return lostCredential{issuer: did, certificate: uuid.NewString(), place: &v.Issuer.Places(t, inst.ID, id, 1, 0)[0]}
}

// signers returns the keys of an institution for Data Integrity proofs and for JWT.
func signers(t testing.TB, v *vaulttest.Vault, inst *account.Institution) (proof, jwt crypto.Signer) {
	t.Helper()
	keys, err := v.Keys.CredentialKeys(context.Background(), inst.UUID, func(*db.Tx) error { return nil })
	ok(t, err)
	for _, k := range keys {
		signer, err := v.Keys.CredentialSigner(context.Background(), k)
		ok(t, err)
		if k.Algorithm == authority.Ed25519 {
			proof = signer
		} else {
			jwt = signer
		}
	}
	return proof, jwt
}

// build returns the credential without a proof.
func (l lostCredential) build(t testing.TB, v *vaulttest.Vault) *credential.Credential {
	t.Helper()
	in := credential.Input{
		ID: l.certificate, Title: "BSc Physics", Issuer: credential.Issuer{DID: l.issuer, Name: "NWU"}, IssuedOn: v.Now().AddDate(0, 0, -1),
		Recipient:   credential.Recipient{Email: "fay@example.org", Salt: "salt"},
		Achievement: credential.Achievement{ID: "urn:x:1", Name: "BSc Physics", Description: "A degree.", Criteria: "180 credits."},
	}
	if l.place != nil {
		in.Status = &credential.StatusEntry{List: "https://vault.example/credentials/status/" + l.place.List, Index: l.place.Position}
	}
	c, err := credential.New(in)
	ok(t, err)
	return c
}

// vc returns the credential as JSON.
func (l lostCredential) vc(t testing.TB, v *vaulttest.Vault, inst *account.Institution) []byte {
	t.Helper()
	key, _ := signers(t, v, inst)
	if l.key != nil {
		key = l.key
	}
	text, err := l.build(t, v).SignDataIntegrity(key, v.Now())
	ok(t, err)
	return text
}

func verified(t testing.TB, v *vaulttest.Vault, file []byte) *credential.Report {
	t.Helper()
	r, err := credential.Verify(context.Background(), file, credential.Options{Fetcher: v.Issuer.Documents(credential.Offline{}), Now: v.Now()})
	ok(t, err)
	return r
}

func count(t testing.TB, v *vaulttest.Vault, query string) (n int) {
	t.Helper()
	ok(t, v.DB.QueryRowContext(context.Background(), query).Scan(&n))
	return n
}

// restored returns a vault as after a restore: the ids of new certificates are higher than the ids of the
// lost certificates. The returned certificate was in the backup, and the returned credential is its credential.
func restored(t testing.TB, d *db.DB) (*vaulttest.Vault, *account.Institution, *cert.Certificate, *issuer.Credential) {
	t.Helper()
	v, inst, c := issued(t, d)
	kept, err := v.Issuer.Credential(t.Context(), c)
	ok(t, err)
	ok(t, d.Tx(t.Context(), func(tx *db.Tx) error { return db.AdvanceIDsTx(t.Context(), tx) }))
	return v, inst, c, kept
}

// A credential whose certificate was lost in a restore can be revoked by its file, in each format. A
// second revocation changes nothing, and no other credential is revoked.
func TestRevokeFile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c, kept := restored(t, d)
		var picture bytes.Buffer
		ok(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1, 1))))
		_, jwtKey := signers(t, v, inst)
		next := c.ID
		lost := func() lostCredential { next++; return lose(t, v, inst, next) }
		files := map[string][]byte{"JSON": lost().vc(t, v, inst)}
		jwt, err := lost().build(t, v).SignJWT(jwtKey)
		ok(t, err)
		files["JWT"] = []byte(jwt)
		sdJWT, err := lost().build(t, v).SignSDJWT(jwtKey, credential.SDJWTOptions{Type: "urn:x:1", Created: v.Now()})
		ok(t, err)
		files["SD-JWT"] = []byte(sdJWT)
		files["PNG"], err = credential.BakePNG(picture.Bytes(), lost().vc(t, v, inst))
		ok(t, err)
		files["SVG"], err = credential.BakeSVG([]byte(`<svg xmlns="http://www.w3.org/2000/svg"></svg>`), lost().vc(t, v, inst))
		ok(t, err)
		// This list of the previous release is closed, as after a restore.
		old := lostCredential{issuer: lost().issuer, certificate: uuid.NewString(), place: &issuer.Entry{List: uuid.NewString(), Position: 4711}}
		v.Exec(`INSERT INTO credential_status_lists (uuid, institution_id, closed, created_at) VALUES ($1, $2, TRUE, 1)`, old.place.List, inst.ID)
		files["previous release"] = old.vc(t, v, inst)

		operator := audit.WithActor(t.Context(), audit.Actor{Type: audit.Command, ID: "root", Name: "root"})
		for name, file := range files {
			r := verified(t, v, file)
			lost, err := v.Issuer.Lost(t.Context(), r)
			if ok(t, err); r.Verdict != credential.Valid || !lost {
				t.Errorf("%s: before the revocation: verdict %s, lost %v, checks %+v, want a valid and lost credential", name, r.Verdict, lost, r.Checks)
			}
			first, err := v.Issuer.RevokeFile(operator, file, " withdrawn ")
			ok(t, err)
			if first.Again || first.Institution.ID != inst.ID || first.Reason != "withdrawn" || first.By != "root" || "urn:uuid:"+first.Certificate != r.Statement.ID {
				t.Errorf("%s: the first revocation is %+v, want the reason withdrawn, by root", name, first)
			}
			second, err := v.Issuer.RevokeFile(t.Context(), file, "another reason")
			ok(t, err)
			if !second.Again || second.Reason != "withdrawn" || second.By != "root" || second.At.UnixMicro() != first.At.UnixMicro() {
				t.Errorf("%s: the second revocation is %+v, want the values of the first", name, second)
			}
		}
		v.Advance(issuerStale)
		for name, file := range files {
			if c := verified(t, v, file).Check(credential.CheckStatus); c.Code != credential.CodeRevoked {
				t.Errorf("%s: after the revocation, the check of the status is %+v, want revoked", name, c)
			}
		}
		next++
		for name, file := range map[string][]byte{"the certificate of the vault": []byte(kept.VC), "another lost certificate": lost().vc(t, v, inst)} {
			if r := verified(t, v, file); r.Verdict != credential.Valid {
				t.Errorf("%s: the checks are %+v, want a valid credential", name, r.Checks)
			}
		}
		if n := count(t, v, `SELECT count(*) FROM audit_entries WHERE action = 'credential.revoked' AND actor_name = 'root' AND detail LIKE '%withdrawn%'`); n != len(files) {
			t.Errorf("%d entries in the audit log, want %d", n, len(files))
		}
	})
}

// RevokeFile refuses a credential that the institution did not sign, and a credential whose place a
// certificate of the vault has or can get.
func TestRevokeFileOfOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c, kept := restored(t, d)
		other := v.Institution("OTH", "Other College")
		_, key, err := ed25519.GenerateKey(rand.Reader)
		ok(t, err)
		open := uuid.NewString()
		v.Exec(`INSERT INTO credential_status_lists (uuid, institution_id, closed, created_at) VALUES ($1, $2, FALSE, 1)`, open, inst.ID)
		changed := func(f func(l *lostCredential)) []byte {
			l := lose(t, v, inst, c.ID+1)
			f(&l)
			return l.vc(t, v, inst)
		}
		for name, tc := range map[string]struct {
			file []byte
			want string
		}{
			"no credential":          {[]byte("%PDF-1.7"), "contains no credential"},
			"damaged picture":        {[]byte("\x89PNG\r\n\x1a\n\x00"), "picture is damaged"},
			"incomplete":             {[]byte(`{"a":1}`), "not a complete credential"},
			"changed":                {bytes.Replace(changed(func(*lostCredential) {}), []byte("BSc"), []byte("MSc"), 1), "No key of Northern & Western University"},
			"another key":            {changed(func(l *lostCredential) { l.key = key }), "No key of Northern & Western University"},
			"other institution":      {lose(t, v, inst, c.ID+1).vc(t, v, other), "No key of Northern & Western University"},
			"another vault":          {changed(func(l *lostCredential) { l.issuer = strings.Replace(l.issuer, "vault.example", "vault.invalid", 1) }), "not an institution of this vault"},
			"unknown institution":    {changed(func(l *lostCredential) { l.issuer = strings.Replace(l.issuer, inst.UUID, uuid.NewString(), 1) }), "not an institution of this vault"},
			"no institution":         {changed(func(l *lostCredential) { l.issuer = "did:web:vault.example" }), "not an institution of this vault"},
			"place of another":       {changed(func(l *lostCredential) { l.place = lose(t, v, other, c.ID+1).place }), "names no status list"},
			"unknown list":           {changed(func(l *lostCredential) { l.place.List = uuid.NewString() }), "names no status list"},
			"no place":               {changed(func(l *lostCredential) { l.place = nil }), "names no status list"},
			"not restored":           {lose(t, v, inst, c.ID+10_000_000).vc(t, v, inst), "A later certificate will get the place"},
			"not restored, old list": {changed(func(l *lostCredential) { l.place.List = open }), "A later certificate will get the place"},
			"place of a certificate": {lose(t, v, inst, c.ID).vc(t, v, inst), "belongs to the certificate " + c.ReferenceID},
			"known":                  {[]byte(kept.VC), "This vault has the certificate " + c.ReferenceID + ". Revoke the certificate"},
		} {
			_, err := v.Issuer.RevokeFile(t.Context(), tc.file, "")
			if err == nil || fault.Is(err, fault.Internal) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: error = %v, want %q", name, err, tc.want)
			}
		}
		if _, err := v.Issuer.RevokeFile(t.Context(), lose(t, v, inst, c.ID+1).vc(t, v, inst), strings.Repeat("x", 1001)); !fault.Is(err, fault.Invalid) {
			t.Errorf("a reason of 1001 characters: error = %v, want fault.Invalid", err)
		}
		if n := count(t, v, `SELECT count(*) FROM credential_revocations`); n != 0 {
			t.Errorf("%d revocations are stored, want 0", n)
		}
		for name, file := range map[string][]byte{"known": []byte(kept.VC), "no institution": changed(func(l *lostCredential) { l.issuer = "did:web:vault.example" })} {
			if lost, err := v.Issuer.Lost(t.Context(), verified(t, v, file)); err != nil || lost {
				t.Errorf("%s: Lost = %v, error %v, want false", name, lost, err)
			}
		}
	})
}
