package public

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// requestID matches the id of a request in the page of an error.
var requestID = regexp.MustCompile(`<code dir="ltr">[A-Z0-9]{26}</code>`)

// The public pages respond to the reference id and the files of an application that is not approved as if
// the application did not exist.
func TestApplicationsAreUnknown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		v.setPublic(account.Public{AllowImage: true, AllowDownload: true})
		o, err := v.Applications.CreateOffer(t.Context(), v.inst, application.OfferInput{
			Slug: "course", Name: "Course", Fields: []application.Field{{Key: "proof", Label: "Proof", Type: application.Upload}},
		})
		if err == nil {
			o, err = v.Applications.SetOfferStatus(t.Context(), v.inst.ID, o.UUID, application.Open)
		}
		if err != nil {
			t.Fatal(err)
		}
		submit := func(name string) (a *application.Application) {
			t.Helper()
			if err := v.Applications.Receive(t.Context(), v.inst.UUID, cert.NewIncoming("proof.pdf", bytes.NewReader(vaulttest.PDF)), func(f *cert.File) (err error) {
				a, err = v.Applications.Submit(t.Context(), application.Submission{
					Institution: v.inst, Offer: o, Creator: cert.Actor{Type: "token", ID: 7, Name: "Portal"}, FullName: name,
					Email: strings.ToLower(name) + "@example.org", Files: map[string][]*cert.File{"proof": {f}},
				})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return a
		}
		pending, rejected, waiting := submit("Ann"), submit("Bea"), submit("Cid")
		r := application.Reviewer{Institution: v.inst, Person: application.Person{ID: 7, Type: "token", Name: "Portal"}}
		if _, err := v.Applications.Claim(t.Context(), r, waiting.UUID); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Applications.Reject(t.Context(), r, rejected.UUID, "A reason that only the applicant sees.", ""); err != nil {
			t.Fatal(err)
		}
		const unknown = "NWU-0000000000000000"
		for _, a := range []*application.Application{pending, rejected, waiting} {
			for _, suffix := range []string{"", "/certificate.pdf", "/image.png"} {
				got, want := v.get("/verify/"+a.ReferenceID+suffix), v.get("/verify/"+unknown+suffix)
				body := requestID.ReplaceAllString(strings.ReplaceAll(got.Body.String(), a.ReferenceID, unknown), "")
				if got.Code != http.StatusNotFound || got.Code != want.Code || body != requestID.ReplaceAllString(want.Body.String(), "") {
					t.Errorf("%s%s of a %s application: status = %d, body %s, want the 404 of an unknown id: %s", a.ReferenceID, suffix, a.Status, got.Code, body, want.Body)
				}
			}
			if w := v.getJSON("/verify/" + a.ReferenceID); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "reason") {
				t.Errorf("JSON of a %s application: status = %d, body %s, want 404 without the reason", a.Status, w.Code, w.Body)
			}
			target := "/verify/file/" + digestOf(string(vaulttest.PDF)) + "?reference_id="
			got, want := v.getJSON(target+a.ReferenceID), v.getJSON(target+unknown)
			if got.Code != want.Code || strings.ReplaceAll(got.Body.String(), a.ReferenceID, unknown) != want.Body.String() {
				t.Errorf("a file for a %s application: status = %d, body %s, want %d, %s", a.Status, got.Code, got.Body, want.Code, want.Body)
			}
		}
		if w := v.getJSON("/verify/file/" + digestOf(string(vaulttest.PDF))); w.Code != http.StatusNotFound {
			t.Errorf("the digest of an attachment: status = %d, body %s, want 404", w.Code, w.Body)
		}
	})
}
