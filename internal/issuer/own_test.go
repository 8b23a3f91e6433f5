package issuer_test

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vault"
	"github.com/certvault/certvault/internal/vaulttest"
)

// elsewhere is a Fetcher that records the requested URLs and returns an error.
type elsewhere struct{ asked []string }

func (e *elsewhere) Fetch(_ context.Context, url, _ string) ([]byte, error) {
	e.asked = append(e.asked, url)
	return nil, errors.New("there is no network")
}

// A vault verifies its own credentials without a request, even if its base URL is not public, and requests
// only the documents of other issuers.
func TestOwnDocuments(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := vaulttest.New(t, d, func(deps *vault.Deps) { deps.BaseURL = "https://127.0.0.1:8080" })
		inst := v.Institution("NWU", "Northern & Western University")
		c := v.Upload(inst, "Ada Obi", "diploma.pdf")
		v.Settle()
		found, err := v.Issuer.Credential(t.Context(), reread(t, v, c))
		ok(t, err)
		other := &elsewhere{}
		check := func(when string, want credential.Verdict) {
			t.Helper()
			for _, text := range []string{found.VC, found.JWT, found.SDJWT} {
				r, err := credential.Verify(t.Context(), []byte(text), credential.Options{Fetcher: v.Issuer.Documents(other), Now: v.Now()})
				ok(t, err)
				if r.Verdict != want || len(other.asked) > 0 {
					t.Errorf("%s: the verdict is %s, want %s; checks %+v; requested %q, want no requests", when, r.Verdict, want, r.Checks, other.asked)
				}
			}
		}
		check("approved", credential.Valid)
		list, err := v.Issuer.List(t.Context(), found.List)
		ok(t, err)
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(string(list.Token), ".")[1])
		ok(t, err)
		if !strings.Contains(string(payload), `"ttl":300,`) && !strings.HasSuffix(string(payload), `"ttl":300}`) {
			t.Errorf("the status list token is %.200s, want a ttl of 300", payload)
		}
		v.Advance(-30 * time.Second) // the clock of a verifier is behind, or a verification began before the list was signed
		check("with a clock that is behind", credential.Valid)
		v.Advance(30 * time.Second)
		_, err = v.Certs.Revoke(t.Context(), inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		v.Advance(issuerStale)
		check("revoked", credential.Invalid)

		documents := v.Issuer.Documents(other)
		for _, address := range []string{
			"https://127.0.0.1:8080/institutions/" + uuid.NewString() + "/did.json", "https://127.0.0.1:8080/institutions//did.json",
			"https://127.0.0.1:8080/credentials/status/" + uuid.NewString(), "https://127.0.0.1:8080" + credential.IssuerMetadataPath + "/institutions/x",
		} {
			if _, err := documents.Fetch(t.Context(), address, ""); err == nil || len(other.asked) > 0 {
				t.Errorf("%s: error = %v, requested %q, want an error and no requests", address, err, other.asked)
			}
		}
		foreign := []string{
			"https://127.0.0.1/institutions/" + inst.UUID + "/did.json", "https://vault.example/institutions/" + inst.UUID + "/did.json",
			"https://127.0.0.1:8080/.well-known/did.json", "http://127.0.0.1:8080/institutions/" + inst.UUID + "/did.json",
		}
		for _, address := range foreign {
			if _, err := documents.Fetch(t.Context(), address, ""); err == nil {
				t.Errorf("%s: error = nil, want the error of the other Fetcher", address)
			}
		}
		if strings.Join(other.asked, " ") != strings.Join(foreign, " ") {
			t.Errorf("requested %q, want %q", other.asked, foreign)
		}
	})
}
