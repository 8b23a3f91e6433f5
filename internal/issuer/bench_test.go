package issuer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/vaulttest"
)

// BenchmarkList reads a status list in which half of the entries are revoked. "again" reads the list
// from memory. "unchanged" reads the revocations again each time, but does not sign the list. "signed" signs
// the list each time.
func BenchmarkList(b *testing.B) {
	v, _, c := issued(b, dbtest.SQLite(b))
	found, err := v.Issuer.Credential(b.Context(), c)
	ok(b, err)
	v.Exec(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 2 FROM n WHERE i < 131070)
		INSERT INTO credential_versions (institution_id, certificate_id, version) SELECT $1, i, 1 FROM n WHERE i <> $2`, c.InstitutionID, c.ID)
	for name, age := range map[string]time.Duration{"again": 0, "unchanged": 30 * time.Second, "signed": 5 * time.Minute} {
		b.Run(name, func(b *testing.B) {
			var signed time.Time
			for b.Loop() {
				v.Advance(age)
				if name == "unchanged" && v.Now().Sub(signed) > 4*time.Minute {
					b.StopTimer()
					v.Advance(5 * time.Minute)
					_, err := v.Issuer.List(b.Context(), found.List) // signs the list
					ok(b, err)
					signed = v.Now()
					v.Advance(age)
					b.StartTimer()
				}
				l, err := v.Issuer.List(b.Context(), found.List)
				ok(b, err)
				b.SetBytes(int64(len(l.VC)))
			}
		})
	}
}

// BenchmarkCredential creates the credential of a certificate in all formats, and stores it.
func BenchmarkCredential(b *testing.B) {
	v := vaulttest.New(b, dbtest.SQLite(b))
	inst := v.Institution("NWU", "Northern & Western University")
	var list []*cert.Certificate
	for i := range 200 {
		list = append(list, v.Upload(inst, fmt.Sprintf("Ada Obi %d", i), "diploma.pdf"))
	}
	v.Settle()
	for i := range list {
		list[i] = reread(b, v, list[i])
	}
	i := 0
	for b.Loop() {
		if i%len(list) == 0 {
			v.Exec(`DELETE FROM credentials`)
		}
		_, err := v.Issuer.Credential(b.Context(), list[i%len(list)])
		ok(b, err)
		i++
	}
}

// BenchmarkRedeem redeems offers for an access token, checks the proof, and signs the credential in
// JSON-LD. It does not measure the mail with the code, the creation of the nonce and the work of the
// wallet.
func BenchmarkRedeem(b *testing.B) {
	v, inst, c := issued(b, dbtest.SQLite(b))
	w := newWallet(b)
	const offers = 15
	var secrets []string
	redeemed := 0
	refill := func() {
		v.Exec(`DELETE FROM credential_offers`)
		secrets = secrets[:0]
		for range offers {
			o, err := v.Issuer.NewOffer(b.Context(), c)
			ok(b, err)
			secrets = append(secrets, o.Secret)
			v.Exec(`UPDATE credential_offers SET created_at = created_at - 4000000000`)
		}
		redeemed = 0
	}
	refill()
	for b.Loop() {
		if redeemed == len(secrets) {
			b.StopTimer()
			refill()
			b.StartTimer()
		}
		secret := secrets[redeemed]
		redeemed++
		b.StopTimer()
		digest, err := v.Issuer.CodeDigest(secret, "123456")
		ok(b, err)
		v.Exec(`UPDATE credential_offers SET code = $1 WHERE token IS NULL`, digest)
		nonce, err := v.Issuer.NewNonce(inst.UUID)
		ok(b, err)
		proof := w.prove(b, v.Issuer.ID(inst.UUID), nonce, v.Now(), nil)
		b.StartTimer()
		token, err := v.Issuer.Redeem(b.Context(), inst.ID, secret, "123456")
		ok(b, err)
		g, err := v.Issuer.Granted(b.Context(), inst.ID, token)
		ok(b, err)
		h, err := v.Issuer.Holder(inst, proof)
		ok(b, err)
		_, err = v.Issuer.Issue(b.Context(), g, h, issuer.FormatVC)
		ok(b, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "redemptions/s")
}
