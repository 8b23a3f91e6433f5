package issuer_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/issuer"
	"github.com/certvault/certvault/internal/vaulttest"
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// issued returns a vault with an institution and an approved certificate of Ada Obi.
func issued(t testing.TB, d *db.DB) (*vaulttest.Vault, *account.Institution, *cert.Certificate) {
	v := vaulttest.New(t, d)
	inst := v.Institution("NWU", "Northern & Western University")
	c := v.Upload(inst, "Ada Obi", "diploma.pdf")
	v.Settle()
	return v, inst, reread(t, v, c)
}

func reread(t testing.TB, v *vaulttest.Vault, c *cert.Certificate) *cert.Certificate {
	t.Helper()
	c, err := v.Certs.ByUUID(context.Background(), c.InstitutionID, c.UUID)
	ok(t, err)
	return c
}

// badge has the parts of a credential that tests read.
type badge struct {
	ID     string
	Issuer struct{ ID, Name string }
	Status struct {
		StatusListIndex      string
		StatusListCredential string
	} `json:"credentialStatus"` //nolint:tagliatelle // the name is that of the standard
	Subject struct {
		ID         string
		Identifier []struct{ IdentityHash, IdentityType, Salt string }
		// Achievement is what the person achieved.
		Achievement struct {
			ID, Name, Description string
			Criteria              struct{ ID, Narrative string }
			Tag                   []string
			Image                 struct{ ID string }
		}
	} `json:"credentialSubject"` //nolint:tagliatelle // the name is that of the standard
	Proof struct{ VerificationMethod string }
}

func parse(t testing.TB, text string) badge {
	t.Helper()
	var b badge
	ok(t, json.Unmarshal([]byte(text), &b))
	return b
}

// credentialOf reads a certificate again and returns its credential.
func credentialOf(t testing.TB, v *vaulttest.Vault, c *cert.Certificate) badge {
	t.Helper()
	found, err := v.Issuer.Credential(context.Background(), reread(t, v, c))
	ok(t, err)
	return parse(t, found.VC)
}

// issuerStale is how long tests wait for a revocation to be in the status list. It is longer than
// listStale.
const issuerStale = time.Minute - time.Second

// revokedIn reports whether the bit of a credential is set in its status list.
func revokedIn(t testing.TB, v *vaulttest.Vault, b badge) bool {
	t.Helper()
	id := b.Status.StatusListCredential[strings.LastIndex(b.Status.StatusListCredential, "/")+1:]
	l, err := v.Issuer.List(context.Background(), id)
	ok(t, err)
	var list struct {
		CredentialSubject struct{ EncodedList string }
	}
	ok(t, json.Unmarshal(l.VC, &list))
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(list.CredentialSubject.EncodedList, "u"))
	ok(t, err)
	z, err := gzip.NewReader(bytes.NewReader(raw))
	ok(t, err)
	bits, err := io.ReadAll(z)
	ok(t, err)
	if len(bits) != 131_072/8 {
		t.Fatalf("the list has %d bytes, want 16384", len(bits))
	}
	var n int
	_, err = fmt.Sscan(b.Status.StatusListIndex, &n)
	ok(t, err)
	return bits[n/8]&(0x80>>(n%8)) != 0
}

// The first request creates the credential, and all requests return the same credential.
func TestCredentialIsCreatedOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		const requests = 8
		texts := make([]string, requests)
		var wait sync.WaitGroup
		for i := range requests {
			wait.Go(func() {
				found, err := v.Issuer.Credential(context.Background(), c)
				if err != nil {
					t.Error(err)
					return
				}
				texts[i] = found.VC + found.JWT + found.SDJWT
			})
		}
		wait.Wait()
		if t.Failed() {
			t.FailNow()
		}
		if len(slices.Compact(texts)) != 1 {
			t.Error("concurrent requests returned different credentials, want the same")
		}
		found, err := v.Issuer.Credential(t.Context(), c)
		ok(t, err)
		b := parse(t, found.VC)
		want := "did:web:vault.example:institutions:" + inst.UUID
		if b.ID != "urn:uuid:"+c.UUID || b.Issuer.ID != want || b.Issuer.Name != inst.Name || !strings.HasPrefix(b.Proof.VerificationMethod, want+"#z6Mk") {
			t.Errorf("the credential is %+v, want the id of the certificate, the issuer %s and its Ed25519 key", b, want)
		}
		mail := b.Subject.Identifier[slices.IndexFunc(b.Subject.Identifier, func(i struct{ IdentityHash, IdentityType, Salt string }) bool {
			return i.IdentityType == "emailAddress"
		})]
		if sum := fmt.Sprintf("sha256$%x", sha256.Sum256([]byte("ada.obi@example.org"+mail.Salt))); mail.IdentityHash != sum || len(mail.Salt) < 16 {
			t.Errorf("the identifier is %+v, want the hash %s and a salt of at least 16 characters", mail, sum)
		}
		if strings.Contains(found.VC+found.JWT+found.SDJWT, "ada.obi@example.org") {
			t.Error("the credential contains the e-mail address in plain text")
		}
		if revokedIn(t, v, b) {
			t.Error("the new credential is revoked in the status list")
		}
	})
}

// A revocation is in the status list within 60 seconds. This is also true for a revocation by a server
// of an earlier release, which does not support credentials.
func TestRevocationReachesTheList(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		second := v.Upload(inst, "Bo Ek", "diploma.pdf")
		v.Settle()
		second = reread(t, v, second)
		var badges []badge
		for _, c := range []*cert.Certificate{c, second} {
			badges = append(badges, credentialOf(t, v, c))
			if revokedIn(t, v, badges[len(badges)-1]) {
				t.Fatal("a credential is revoked in the status list before its certificate is revoked")
			}
		}
		before, err := v.Issuer.Credential(t.Context(), c)
		ok(t, err)
		_, err = v.Certs.Revoke(t.Context(), inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		v.Advance(59 * time.Second)
		if !revokedIn(t, v, badges[0]) || revokedIn(t, v, badges[1]) {
			t.Error("after 59 seconds, want only the credential of the revoked certificate revoked in the status list")
		}
		after, err := v.Issuer.Credential(t.Context(), reread(t, v, c))
		ok(t, err)
		if *after != *before {
			t.Error("the revocation changed the stored credential")
		}
		v.Exec(`UPDATE certificates SET status = 'revoked', revoked_at = 1, revocation_reason = 'x' WHERE id = $1`, second.ID)
		v.Advance(59 * time.Second)
		if !revokedIn(t, v, badges[1]) {
			t.Error("the credential is not revoked in the status list after the statement of an earlier release")
		}
	})
}

// If the first credential of a certificate is created after the revocation, it is revoked in the status
// list.
func TestFirstCredentialAfterRevocation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		_, err := v.Certs.Revoke(t.Context(), inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		// The caller may have read the certificate before the revocation.
		found, err := v.Issuer.Credential(t.Context(), c)
		ok(t, err)
		if !revokedIn(t, v, parse(t, found.VC)) {
			t.Error("the credential is not revoked in the status list")
		}
	})
}

// A correction of the address revokes the credential of the former address. The next request creates a
// new credential.
func TestCorrectedAddress(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		first := credentialOf(t, v, c)
		_, err := v.Recipients.CorrectEmail(t.Context(), inst.ID, c.UUID, "ada@example.org", nil)
		ok(t, err)
		if _, err := v.Issuer.Credential(t.Context(), c); !fault.Is(err, fault.Conflict) {
			t.Errorf("requesting the credential with the former address: error = %v, want fault.Conflict", err)
		}
		second := credentialOf(t, v, c)
		v.Advance(time.Minute)
		if !revokedIn(t, v, first) || revokedIn(t, v, second) || first.Status == second.Status {
			t.Errorf("the places are %v and %v, want different places, of which only the first is revoked", first.Status, second.Status)
		}
		_, err = v.Certs.Revoke(t.Context(), inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		v.Advance(time.Minute)
		if !revokedIn(t, v, first) || !revokedIn(t, v, second) {
			t.Error("a credential is not revoked after the revocation of the certificate, want both revoked")
		}
	})
}

// An erased certificate has no credential, and copies of its former credential remain revoked.
func TestErasure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		found := credentialOf(t, v, c)
		_, err := v.Certs.Revoke(t.Context(), inst.ID, c.UUID, cert.Revocation{Reason: "issued by mistake"})
		ok(t, err)
		revoked := reread(t, v, c)
		_, err = v.Certs.Erase(t.Context(), c.ReferenceID, "")
		ok(t, err)
		var rows int
		ok(t, v.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM credentials`).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d credentials are stored after the erasure, want 0", rows)
		}
		// The caller may have read the certificate before the erasure.
		for _, c := range []*cert.Certificate{reread(t, v, c), revoked} {
			if _, err := v.Issuer.Credential(t.Context(), c); !errors.Is(err, issuer.ErrNoCredential) {
				t.Errorf("requesting the credential: error = %v, want ErrNoCredential", err)
			}
		}
		ok(t, v.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM credentials`).Scan(&rows))
		if rows != 0 {
			t.Errorf("%d credentials are stored after the requests, want 0", rows)
		}
		v.Advance(time.Minute)
		if !revokedIn(t, v, found) {
			t.Error("the erased credential is not revoked in the status list")
		}
	})
}

// The former keys remain in the DID document after a rotation, and new credentials use the new keys.
func TestRotation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		first := credentialOf(t, v, c)
		recorded := 0
		ok(t, v.Keys.RotateCredentialKeys(t.Context(), inst.UUID, nil, func(*db.Tx) error { recorded++; return nil }))
		later := v.Upload(inst, "Bo Ek", "diploma.pdf")
		v.Settle()
		second := credentialOf(t, v, later)
		raw, err := v.Issuer.DIDDocument(t.Context(), inst)
		ok(t, err)
		var document struct {
			VerificationMethod []struct{ ID string }
			AssertionMethod    []string
		}
		ok(t, json.Unmarshal(raw, &document))
		for _, b := range []badge{first, second} {
			if !slices.Contains(document.AssertionMethod, b.Proof.VerificationMethod) {
				t.Errorf("the DID document does not contain the key %s", b.Proof.VerificationMethod)
			}
		}
		if first.Proof.VerificationMethod == second.Proof.VerificationMethod || len(document.VerificationMethod) != 4 || recorded != 1 {
			t.Errorf("the document has %d keys and the rotation was recorded %d times, want 4 and 1, and a new key for the second credential", len(document.VerificationMethod), recorded)
		}
		if credentialOf(t, v, c).Proof != first.Proof {
			t.Error("the rotation changed a stored credential")
		}
	})
}

// Other institutions cannot read, change or delete an achievement, and their certificates do not use
// it.
func TestAchievementsOfTenants(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		other := v.Institution("OTH", "Other College")
		foreign := v.Upload(other, "Bo Ek", "diploma.pdf")
		v.Settle()
		var file bytes.Buffer
		ok(t, png.Encode(&file, image.NewNRGBA(image.Rect(0, 0, 700, 300))))
		a, err := v.Issuer.SaveAchievement(t.Context(), inst.ID, "", issuer.AchievementInput{
			Title: " BSc Physics ", Description: "Three years of physics.", CriteriaURL: "https://nwu.example/physics", Skills: "Optics\n\nMechanics\r\nOptics", Picture: file.Bytes(),
		})
		ok(t, err)
		ctx := t.Context()
		if _, err := v.Issuer.Achievement(ctx, other.ID, a.UUID); !errors.Is(err, issuer.ErrNoAchievement) {
			t.Errorf("reading the achievement of another institution: error = %v, want ErrNoAchievement", err)
		}
		if _, err := v.Issuer.Picture(ctx, other.ID, a.UUID, a.Picture); !errors.Is(err, issuer.ErrNoAchievement) {
			t.Errorf("reading the picture of another institution: error = %v, want ErrNoAchievement", err)
		}
		if _, err := v.Issuer.SaveAchievement(ctx, other.ID, a.UUID, issuer.AchievementInput{Title: "x", Description: "x", Criteria: "x"}); !errors.Is(err, issuer.ErrNoAchievement) {
			t.Errorf("changing the achievement of another institution: error = %v, want ErrNoAchievement", err)
		}
		if err := v.Issuer.DeleteAchievement(ctx, other.ID, a.UUID); !errors.Is(err, issuer.ErrNoAchievement) {
			t.Errorf("deleting the achievement of another institution: error = %v, want ErrNoAchievement", err)
		}
		if list, err := v.Issuer.Achievements(ctx, other.ID); err != nil || len(list) != 0 {
			t.Errorf("the other institution has the achievements %v, error %v, want none", list, err)
		}
		got := credentialOf(t, v, c).Subject.Achievement
		if got.ID != "urn:uuid:"+a.UUID || got.Criteria.ID != "https://nwu.example/physics" || !slices.Equal(got.Tag, []string{"Optics", "Mechanics"}) ||
			got.Image.ID != "https://vault.example/institutions/"+inst.UUID+"/achievements/"+a.UUID+"/"+a.Picture+".png" {
			t.Errorf("the achievement in the credential is %+v, want the stored achievement with its picture", got)
		}
		if got := credentialOf(t, v, foreign).Subject.Achievement; got.Image.ID != "" || got.Name != "BSc Physics" || got.Criteria.Narrative == "" || !strings.Contains(got.Description, "Other College") {
			t.Errorf("the achievement of the other institution is %+v, want one from the title, without a picture", got)
		}
		picture, err := v.Issuer.Picture(ctx, inst.ID, a.UUID, a.Picture)
		ok(t, err)
		if head, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || head.Width != 512 {
			t.Errorf("the picture is %d pixels wide, error %v, want 512", head.Width, err)
		}
		ok(t, v.Issuer.DeleteAchievement(ctx, inst.ID, a.UUID))
	})
}

// A certificate of a template has the achievement of the template. Other certificates have the
// achievement with their title.
func TestAchievementOfTemplate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v, inst, c := issued(t, d)
		v.Exec(`INSERT INTO templates (uuid, institution_id, name, name_folded, created_at, updated_at) VALUES ('t1', $1, 'Internal name', '', 1, 1)`, inst.ID)
		v.Exec(`INSERT INTO template_versions (template_id, institution_id, number, state, revision, design_key, pages, layout, warnings, created_at, updated_at)
			SELECT id, institution_id, 1, 'published', 1, '', '[]', '{}', '[]', 1, 1 FROM templates`)
		of := c.Title
		save := func(title, template string) *issuer.Achievement {
			a, err := v.Issuer.SaveAchievement(t.Context(), inst.ID, "", issuer.AchievementInput{Title: title, Description: "Text", Criteria: "Text", Template: template})
			ok(t, err)
			return a
		}
		byTitle, byTemplate := save(of, ""), save("Bachelor of Physics", "t1")
		if byTemplate.Template == nil || byTemplate.Template.Name != "Internal name" || byTitle.Template != nil {
			t.Errorf("the templates are %v and %v, want Internal name and none", byTemplate.Template, byTitle.Template)
		}
		later := v.Upload(inst, "Bo Ek", "diploma.pdf")
		v.Settle()
		v.Exec(`UPDATE certificates SET template_version_id = (SELECT id FROM template_versions) WHERE id = $1`, later.ID)
		if got := credentialOf(t, v, later).Subject.Achievement; got.ID != "urn:uuid:"+byTemplate.UUID || got.Name != "Bachelor of Physics" {
			t.Errorf("the certificate of the template has the achievement %+v, want the achievement of the template", got)
		}
		if got := credentialOf(t, v, c).Subject.Achievement; got.ID != "urn:uuid:"+byTitle.UUID {
			t.Errorf("the other certificate has the achievement %+v, want the achievement with its title", got)
		}
		// If the template is deleted, the achievement remains.
		v.Exec(`UPDATE certificates SET template_version_id = NULL`)
		v.Exec(`DELETE FROM template_versions`)
		v.Exec(`DELETE FROM templates`)
		if a, err := v.Issuer.Achievement(t.Context(), inst.ID, byTemplate.UUID); err != nil || a.Template != nil {
			t.Errorf("the achievement after the deletion of the template is %+v, error %v, want it without a template", a, err)
		}
	})
}

// An error for an achievement with a wrong value names the field of the value.
func TestAchievementProblems(t *testing.T) {
	t.Parallel()
	v, inst, _ := issued(t, dbtest.SQLite(t))
	good := issuer.AchievementInput{Title: "BSc", Description: "Text", Criteria: "Text"}
	_, err := v.Issuer.SaveAchievement(t.Context(), inst.ID, "", good)
	ok(t, err)
	for field, change := range map[string]func(*issuer.AchievementInput){
		"title":        func(in *issuer.AchievementInput) { in.Title = "BSc" },
		"description":  func(in *issuer.AchievementInput) { in.Description = " " },
		"criteria":     func(in *issuer.AchievementInput) { in.Criteria = "" },
		"criteria_url": func(in *issuer.AchievementInput) { in.CriteriaURL = "javascript:alert(1)" },
		"skills":       func(in *issuer.AchievementInput) { in.Skills = strings.Repeat("x", 101) },
		"picture":      func(in *issuer.AchievementInput) { in.Picture = []byte("<svg/>") },
		"template":     func(in *issuer.AchievementInput) { in.Template = "unknown" },
	} {
		in := good
		in.Title = "MSc"
		change(&in)
		_, err := v.Issuer.SaveAchievement(t.Context(), inst.ID, "", in)
		e, isFault := errors.AsType[*fault.Error](err)
		if !isFault || e.Kind != fault.Invalid || len(e.Fields) != 1 || e.Fields[0].Name != field {
			t.Errorf("with a wrong %s: error = %v, want fault.Invalid for this field only", field, err)
		}
	}
}
