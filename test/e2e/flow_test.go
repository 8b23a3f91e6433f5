//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image/png"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

var referenceID = regexp.MustCompile(`^NWU-[0-9A-HJKMNP-TV-Z]{16}$`)

// TestMainFlow uploads, verifies and revokes a certificate for each type of file.
func TestMainFlow(t *testing.T) {
	t.Parallel()
	jpeg, err := vault.JPEG(1400, 990)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := vault.PNG(1400, 990)
	if err != nil {
		t.Fatal(err)
	}
	originals := []struct {
		name, mime string
		content    []byte
	}{
		{"diploma.pdf", "application/pdf", sample("Zoë Übermuth")},
		{"diploma.jpg", "image/jpeg", jpeg},
		{"diploma.JPEG", "image/jpeg", jpeg},
		{"diploma.png", "image/png", picture},
	}
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		public := f.as(t, "")
		for i, o := range originals {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				upload := vault.NewForm("Diploma in Cartography", "Zoë Übermuth", fmt.Sprintf("Zoe.%d@Example.org", i), o.name, o.content).
					With("issue_date", "2026-02-28").With("details", "With distinction")
				made := f.upload(t, upload)
				checkCreated(t, made, i, o.name, o.mime, o.content)
				approved := f.await(t, made.UUID, "approved")
				verified := checkFiles(t, f, public, approved, o.content)
				if o.mime == "application/pdf" && !bytes.HasPrefix(verified, o.content) {
					t.Error("the verified PDF does not begin with the original")
				}
				checkPublic(t, f, public, approved)
				revoke(t, f, public, approved, verified)
			})
		}
	})
}

// checkCreated checks the response to an upload.
func checkCreated(t *testing.T, c *client.VaultCertificate, i int, name, mime string, content []byte) {
	t.Helper()
	if c.Status.Value != "processing" || c.Status.Label == "" || c.Status.Description == "" {
		t.Errorf("status = %+v, want processing with a label and a description", c.Status)
	}
	if c.Source.Value != "vault" || c.TriggerContext != "single_upload" {
		t.Errorf("source = %+v, trigger context = %q; want vault and single_upload", c.Source, c.TriggerContext)
	}
	if c.CertificateTitle != "Diploma in Cartography" || c.FullName != "Zoë Übermuth" || c.ApplicantEmail != fmt.Sprintf("Zoe.%d@Example.org", i) ||
		c.IssueDate != "2026-02-28" || c.Details == nil || *c.Details != "With distinction" {
		t.Errorf("the certificate does not have the submitted values: %+v", c)
	}
	if !referenceID.MatchString(c.ReferenceID) {
		t.Errorf("reference id = %q, want %s", c.ReferenceID, referenceID)
	}
	sum := sha256.Sum256(content)
	if want := (client.StoredFile{Name: name, MIMEType: mime, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}); c.File != want {
		t.Errorf("file = %+v, want %+v", c.File, want)
	}
	if c.ID == 0 || c.PDFPath != nil || c.ImagePath != nil || c.VerifiedSHA256 != nil || c.ApprovedAt != nil || c.Failure != nil {
		t.Errorf("certificate = %+v, want an id, and no field that only an approved or failed certificate has", c)
	}
}

// checkFiles downloads and checks the verified PDF, the picture, the QR code and the barcode of a
// certificate. It returns the verified PDF.
func checkFiles(t *testing.T, f *fixture, public *vault.Client, c *client.VaultCertificate, original []byte) []byte {
	t.Helper()
	a := get(t, f.client, vault.CertificatesPath+"/"+c.UUID+"/download", 200)
	if got := a.Header.Get("Content-Type"); got != "application/pdf" {
		t.Errorf("content type of the download = %q, want application/pdf", got)
	}
	sum := sha256.Sum256(a.Body)
	if c.VerifiedSHA256 == nil || *c.VerifiedSHA256 != hex.EncodeToString(sum[:]) {
		t.Error("verified_sha256 is not the digest of the download")
	}
	if bytes.Equal(a.Body, original) || c.ApprovedAt == nil {
		t.Error("the verified PDF is equal to the original, or approved_at is not set")
	}
	path := writeTemp(t, "verified.pdf", a.Body)
	run(t, "qpdf", "--check", path)
	pages := filepath.Join(filepath.Dir(path), "page")
	run(t, "pdftoppm", "-r", "150", "-png", path, pages)
	rendered, err := filepath.Glob(pages + "*.png")
	if err != nil || len(rendered) == 0 {
		t.Fatalf("pdftoppm rendered no page: %v", err)
	}
	checkScan(t, c.VerificationURL, rendered...)

	if c.PDFPath == nil || c.ImagePath == nil {
		t.Fatalf("pdf_path or image_path is not set: %+v", c)
	}
	viaLink := get(t, public, *c.PDFPath, 200)
	if !bytes.Equal(viaLink.Body, a.Body) {
		t.Error("the file of pdf_path differs from the download")
	}
	checkAsset(t, viaLink, "application/pdf")
	image := get(t, public, *c.ImagePath, 200)
	checkAsset(t, image, "image/png")
	if _, err := png.Decode(bytes.NewReader(image.Body)); err != nil {
		t.Errorf("image_path is not a PNG: %v", err)
	}
	checkScan(t, c.VerificationURL, writeTemp(t, "image.png", image.Body))
	for _, broken := range changedLinks(t, *c.PDFPath) {
		if a, err := public.Get(t.Context(), broken); err != nil || a.Status != 404 {
			t.Errorf("requesting the changed link %s: error = %v; want the status 404", broken, err)
		}
	}

	qr := get(t, public, c.QRCodePath, 200)
	checkAsset(t, qr, "image/svg+xml")
	checkScan(t, c.VerificationURL, rasterise(t, qr.Body))
	bar := get(t, public, c.BarcodePath, 200)
	checkAsset(t, bar, "image/svg+xml")
	checkScan(t, c.ReferenceID, rasterise(t, bar.Body))
	return a.Body
}

// checkAsset checks the content type of a file, and the headers that prevent scripts in the file and
// public caching.
func checkAsset(t *testing.T, a *vault.Response, mediaType string) {
	t.Helper()
	if got := a.Header.Get("Content-Type"); got != mediaType {
		t.Errorf("content type = %q, want %q", got, mediaType)
	}
	if a.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.Header.Get("Content-Security-Policy"), "sandbox") ||
		!strings.Contains(a.Header.Get("Cache-Control"), "private") {
		t.Errorf("headers of the file = %v, want nosniff, a sandbox and private caching", a.Header)
	}
}

// checkScan checks that a scanner reads the content in at least one of the pictures.
func checkScan(t *testing.T, content string, pictures ...string) {
	t.Helper()
	got := run(t, "zbarimg", append([]string{"--quiet", "--raw"}, pictures...)...)
	for line := range strings.Lines(got) {
		if strings.TrimSpace(line) == content {
			return
		}
	}
	t.Errorf("the scanner reads %q, want %q", got, content)
}

// changedLinks returns invalid variants of a link to a file.
func changedLinks(t *testing.T, link string) (list []string) {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	change := func(f func(u *url.URL, q url.Values)) {
		changed, q := *u, u.Query()
		f(&changed, q)
		changed.RawQuery = q.Encode()
		list = append(list, changed.String())
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	// next changes the lowest bit of a base64url character. In the last character of a signature, this bit
	// is not a part of the decoded bytes.
	next := func(s string, i int) string {
		return s[:i] + string(alphabet[strings.IndexByte(alphabet, s[i])^1]) + s[i+1:]
	}
	change(func(_ *url.URL, q url.Values) { q.Set("signature", next(q.Get("signature"), 0)) })
	change(func(_ *url.URL, q url.Values) {
		q.Set("signature", next(q.Get("signature"), len(q.Get("signature"))-1))
	})
	change(func(_ *url.URL, q url.Values) { q.Set("signature", q.Get("signature")+"\n") })
	change(func(_ *url.URL, q url.Values) { q.Del("signature") })
	change(func(_ *url.URL, q url.Values) { q.Set("expires", q.Get("expires")+"0") })
	change(func(_ *url.URL, q url.Values) { q.Del("expires") })
	change(func(u *url.URL, _ url.Values) { u.Path = strings.TrimSuffix(u.Path, "pdf") + "image" })
	change(func(u *url.URL, _ url.Values) { u.Path = strings.TrimSuffix(u.Path, "pdf") + "original" })
	return list
}

// checkPublic checks the public information about an approved certificate.
func checkPublic(t *testing.T, f *fixture, public *vault.Client, c *client.VaultCertificate) {
	t.Helper()
	if c.VerificationURL != f.URL+"/verify/"+c.ReferenceID {
		t.Errorf("verification_url = %q, want the address of the vault, /verify/ and the reference id", c.VerificationURL)
	}
	folded := strings.ToLower(strings.ReplaceAll(c.ReferenceID, "-", ""))
	for _, typed := range []string{c.VerificationURL, f.URL + "/verify/" + folded, f.URL + "/verify/" + url.PathEscape(" "+c.ReferenceID+" ")} {
		v, err := public.Verify(t.Context(), typed)
		if err != nil {
			t.Fatal(err)
		}
		if v.ReferenceID != c.ReferenceID || v.Status != "valid" || v.Institution != "Northwind University" || v.FullName != c.FullName ||
			v.CertificateTitle != c.CertificateTitle || v.IssueDate != c.IssueDate || v.ApprovedAt == nil || v.RevokedAt != nil || v.Reason != nil {
			t.Errorf("verification of %s = %+v, want valid with the data of the certificate", typed, v)
		}
		for _, k := range v.Checks {
			if (k.Result == "not_run") != (k.CheckedAt == nil) || k.Result == "failed" {
				t.Errorf("check = %+v, want a result other than failed, and a time if and only if the check ran", k)
			}
		}
	}
	page := verifyPage(t, public, c.VerificationURL)
	if !strings.Contains(page, c.FullName) || !strings.Contains(page, "Diploma in Cartography") {
		t.Error("the page does not show the name and the title")
	}
	response := get(t, public, c.VerificationURL, 200)
	for _, secret := range []string{c.ApplicantEmail, strings.ToLower(c.ApplicantEmail), c.UUID} {
		if strings.Contains(page, secret) || bytes.Contains(response.Body, []byte(secret)) {
			t.Errorf("the public page or response contains %q", secret)
		}
	}
}

// verifyPage returns the HTML page of a verification.
func verifyPage(t *testing.T, public *vault.Client, target string) string {
	t.Helper()
	req, err := public.Request(t.Context(), "GET", target, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	a, err := public.Send(req)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a, 200)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		t.Errorf("content type of the page = %q, want text/html", a.Header.Get("Content-Type"))
	}
	return string(a.Body)
}

// revoke revokes a certificate twice. It checks the certificate, its events, its files and its
// verification.
func revoke(t *testing.T, f *fixture, public *vault.Client, c *client.VaultCertificate, verified []byte) {
	t.Helper()
	events := func() int {
		return count(t, f.database(t), `SELECT count(*) FROM webhook_events WHERE certificate_id = $1`, c.ID)
	}
	if n := events(); n != 2 {
		t.Errorf("got %d events before the revocation, want 2", n)
	}
	reason := "Issued in error to the wrong person"
	for range 2 { // the second revocation is not an error and causes no event
		revoked := f.revoke(t, c.UUID, reason, "Case 17: internal")
		if revoked.Status.Value != "revoked" || revoked.RevokedAt == nil || revoked.RevocationReason == nil || *revoked.RevocationReason != reason ||
			revoked.PDFPath != nil || revoked.ImagePath != nil {
			t.Errorf("revoked certificate = %+v, want the status revoked with a time and the reason, and no links to files", revoked)
		}
		if n := events(); n != 3 {
			t.Errorf("got %d events after the revocation, want 3", n)
		}
	}
	if !bytes.Equal(f.verified(t, c.UUID), verified) {
		t.Error("the revocation changed the download")
	}
	get(t, public, *c.PDFPath, 404)
	get(t, public, *c.ImagePath, 404)
	get(t, public, c.QRCodePath, 200)
	v, err := public.Verify(t.Context(), c.VerificationURL)
	if err != nil {
		t.Fatal(err)
	}
	if v.Status != "revoked" || v.RevokedAt == nil || v.Reason == nil || *v.Reason != reason {
		t.Errorf("verification after the revocation = %+v, want revoked with a time and the reason", v)
	}
	page := verifyPage(t, public, c.VerificationURL)
	if !strings.Contains(page, reason) || strings.Contains(page, "Case 17") {
		t.Error("the page does not show the reason, or shows the internal note")
	}
	_, err = f.api(t).RetryProcessing(t.Context(), c.UUID)
	wantClientError(t, err, client.ErrInvalidOperation, "")
}
