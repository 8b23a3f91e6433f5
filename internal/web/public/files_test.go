package public

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
	"github.com/certvault/certvault/internal/web"
)

// A request for a file that is not public gets the status 404, and the page of the certificate has no link
// to the file.
func TestPublicFiles(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		pdf, picture := "/verify/"+c.ReferenceID+"/certificate.pdf", "/verify/"+c.ReferenceID+"/image.png"
		check := func(name string, pdfCode, pictureCode int) {
			t.Helper()
			for target, want := range map[string]int{pdf: pdfCode, picture: pictureCode} {
				w := v.get(target)
				if w.Code != want || w.Code == 200 && (w.Header().Get("Cache-Control") != "private, no-cache" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox")) {
					t.Errorf("%s, %s: status = %d, header %v, want %d and, with 200, no shared cache and a sandbox", name, target, w.Code, w.Header(), want)
				}
				linked := slices.Contains(append(attributes(t, v.get("/verify/"+c.ReferenceID), "a", "href"), attributes(t, v.get("/verify/"+c.ReferenceID), "img", "src")...), target)
				if linked != (want == 200) {
					t.Errorf("%s: the page has a link to %s: %v, want %v", name, target, linked, want == 200)
				}
			}
		}
		v.setPublic(account.Public{AllowImage: true, AllowDownload: true})
		check("processing", 404, 404)
		v.setPublic(account.Public{})
		v.Work(1)
		check("by default", 404, 404)
		v.setPublic(account.Public{AllowImage: true})
		check("only the picture", 404, 200)
		v.setPublic(account.Public{AllowDownload: true})
		check("only the file", 200, 404)
		if got := v.get(pdf).Body.String(); got != string(vaulttest.PDF)+tail {
			t.Errorf("the file is %q, want the original and the tail", got)
		}
		// A hidden name stays hidden even if the settings in the database contradict each other.
		v.Exec(`UPDATE institutions SET hide_name = $1, public_image = $1, public_download = $1`, true)
		check("hidden name", 404, 404)
		v.setPublic(account.Public{AllowImage: true, AllowDownload: true})
		check("both", 200, 200)
		v.revoke(c, "x")
		check("revoked", 404, 404)
		if w := v.get("/verify/" + c.ReferenceID + "/anything.txt"); w.Code != http.StatusNotFound {
			t.Errorf("an unknown route: status = %d, want 404", w.Code)
		}
	})
}

func TestFilesByDigest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		verified, original := digestOf(string(vaulttest.PDF)+tail), digestOf(string(vaulttest.PDF))
		fetch := func(target string) (*httptest.ResponseRecorder, map[string]any) {
			t.Helper()
			w := v.getJSON(target)
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%s: body %s, header %v, error %v, want JSON with no-store", target, w.Body, w.Header(), err)
			}
			return w, got
		}
		unknown := func(name, digest string) {
			t.Helper()
			if w, _ := fetch("/verify/file/" + digest); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "NWU") {
				t.Errorf("the digest (%s): status = %d, body %s, want 404 without a reference id", name, w.Code, w.Body)
			}
		}
		// A staged file is unknown, and so are the files of certificates in processing and of failed
		// certificates.
		if err := v.pages.Certs.Receive(t.Context(), v.inst.UUID, cert.NewIncoming("staged.pdf", bytes.NewReader(vaulttest.PDF)), func(*cert.File) error { return nil }); err != nil {
			t.Fatal(err)
		}
		unknown("staged", original)
		v.upload("Failed", "Ada Obi", "refuse.pdf")
		c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		unknown("processing", original)
		unknown("processing", verified)
		target := "/verify/file/" + original + "?reference_id=" + c.ReferenceID
		if w, got := fetch(target); w.Code != 200 || got["match"] != "different" || got["data"].(map[string]any)["status"] != "processing" {
			t.Errorf("a comparison with a certificate in processing: body %s, want 200 with different and processing", w.Body)
		}
		checkPage(t, "a comparison with a processing certificate", v.get(target), http.StatusOK, "not ready yet")
		v.Work(2)
		for _, malformed := range []string{"x", verified[:62], verified + "00", strings.Repeat("z", 64), "%00"} {
			unknown(malformed, malformed)
			if w := v.get("/verify/file/" + malformed); w.Code != http.StatusNotFound {
				t.Errorf("the page of the digest %q: status = %d, want 404", malformed, w.Code)
			}
		}
		unknown("an unknown file", digestOf("x"))
		checkPage(t, "an unknown file", v.get("/verify/file/"+digestOf("x")), http.StatusNotFound, "File not recognized", "does not mean that the file is forged", digestOf("x"))

		for target, want := range map[string]string{verified: "verified", strings.ToUpper(verified): "verified", original: "original"} {
			_, got := fetch("/verify/file/" + target)
			data, _ := got["data"].(map[string]any)
			if got["match"] != want || got["count"] != 1.0 || data["reference_id"] != c.ReferenceID || data["status"] != "valid" {
				t.Errorf("the result is %v, want the match %s with the valid certificate", got, want)
			}
		}
		checkPage(t, "verified", v.get("/verify/file/"+verified), http.StatusOK, "This certificate is valid", "Your file is identical to the verified PDF", "Ada Obi")
		checkPage(t, "original", v.get("/verify/file/"+original), http.StatusOK, "This certificate is valid", "Your file is the original file, as it was submitted")

		changed := "/verify/file/" + digestOf("changed") + "?reference_id=" + strings.ToLower(c.ReferenceID)
		if w, got := fetch(changed); w.Code != 200 || got["match"] != "different" || got["count"] != 0.0 || got["data"].(map[string]any)["status"] != "valid" {
			t.Errorf("a changed file: body %s, want 200 with different, 0 and the valid certificate", w.Body)
		}
		w := v.get(changed)
		checkPage(t, "changed", w, http.StatusOK, "This file is not the one issued", "Difference", digestOf("changed"), verified, "The certificate with this reference id", "BSc Physics")
		if strings.Contains(textOf(t, w), "is valid") {
			t.Errorf("the page of a changed file contains \"is valid\": %s", textOf(t, w))
		}
		if w := v.get("/verify/file/" + digestOf("changed") + "?reference_id=" + unknownID); w.Code != http.StatusNotFound {
			t.Errorf("a changed file and an unknown reference id: status = %d, want 404", w.Code)
		}

		// If another institution has a certificate of the same original, the page shows the records of
		// both institutions.
		first := v.inst
		v.inst = v.Institution("OTH", "Other")
		approve := func(c *cert.Certificate) {
			v.Exec(`UPDATE certificates SET status = 'approved', verified_sha256 = $1, verified_size = 1, tail_key = 'x' WHERE uuid = $2`, bytes.Repeat([]byte{7}, 32), c.UUID)
		}
		other := v.upload("Other", "Somebody Else", "diploma.pdf")
		approve(other)
		w, got := fetch("/verify/file/" + original)
		records, _ := got["records"].([]any)
		if w.Code != 200 || got["match"] != "original" || got["count"] != 2.0 || got["data"] != nil || len(records) != 2 ||
			records[0].(map[string]any)["reference_id"] != c.ReferenceID || records[1].(map[string]any)["institution"] != "Other" {
			t.Errorf("a file of two institutions: body %s, want 200 with the records of both", w.Body)
		}
		checkPage(t, "a file of two institutions", v.get("/verify/file/"+original), http.StatusOK, "Several certificates were issued from this file",
			"Northern & Western University", "Ada Obi", c.ReferenceID, "Other", "Somebody Else", other.ReferenceID)
		// If an institution has two certificates of the file, the page shows only their number.
		another := v.upload("Another", "Somebody Else", "diploma.pdf")
		approve(another)
		if w, got := fetch("/verify/file/" + original); got["count"] != 3.0 || got["data"] != nil || len(got["records"].([]any)) != 1 || strings.Contains(w.Body.String(), "Somebody") {
			t.Errorf("a file of three certificates: body %s, want the count 3 and only the record of the first institution", w.Body)
		}
		w = v.get("/verify/file/" + original)
		checkPage(t, "a file of three certificates", w, http.StatusOK, "Several certificates were issued from this file", "Ada Obi", "2 certificates")
		if text := textOf(t, w); strings.Contains(text, "Somebody") || strings.Contains(text, other.ReferenceID) {
			t.Errorf("the page of a file of three certificates names a certificate of the other institution: %s", text)
		}
		// An institution that has revoked all its certificates of the file is ignored.
		v.revoke(other, "x")
		v.revoke(another, "x")
		if w, got := fetch("/verify/file/" + original); got["count"] != 1.0 || got["data"].(map[string]any)["reference_id"] != c.ReferenceID || got["records"] != nil {
			t.Errorf("after the other institution revoked its certificates: body %s, want the count 1 and the certificate", w.Body)
		}
		checkPage(t, "after the other institution revoked its certificates", v.get("/verify/file/"+original), http.StatusOK, "This certificate is valid", "Ada Obi")
		approve(other)
		v.Exec(`UPDATE certificates SET institution_id = $1 WHERE uuid IN ($2, $3)`, first.ID, other.UUID, another.UUID)
		v.inst = first
		w, got = fetch("/verify/file/" + original)
		if got["count"] != 3.0 || got["data"] != nil || got["records"] != nil || strings.Contains(w.Body.String(), "Ada") {
			t.Errorf("a file of several certificates of one institution: body %s, want the count 3 and no record", w.Body)
		}
		w = v.get("/verify/file/" + original)
		checkPage(t, "a file of several certificates of one institution", w, http.StatusOK, "Several certificates were issued from this file", "3")
		if text := textOf(t, w); strings.Contains(text, "Ada") || strings.Contains(text, "Somebody") || strings.Contains(text, c.ReferenceID) {
			t.Errorf("the page of a file of several certificates of one institution names a certificate: %s", text)
		}
		checkPage(t, "a file of two certificates and a reference id", v.get("/verify/file/"+original+"?reference_id="+c.ReferenceID), http.StatusOK, "Ada Obi", "is the original")
		checkPage(t, "the file of another certificate", v.get("/verify/file/"+verified+"?reference_id="+other.ReferenceID), http.StatusOK,
			"This file is not the one issued", "Your file is the file of another certificate", c.ReferenceID, other.ReferenceID)

		v.revoke(c, "Issued by mistake")
		if w, got := fetch("/verify/file/" + verified); got["match"] != "verified" || got["data"].(map[string]any)["status"] != "revoked" {
			t.Errorf("the file of a revoked certificate: body %s, want verified and revoked", w.Body)
		}
		checkPage(t, "revoked", v.get("/verify/file/"+verified), http.StatusOK, "Revoked on", "Issued by mistake", "is identical to the verified PDF")
		checkPage(t, "changed, revoked", v.get(changed), http.StatusOK, "This file is not the one issued", "no longer valid", "Issued by mistake")
		v.checkSecrets()
	})
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	var drawn []string
	check := func() {
		t.Helper()
		for _, name := range []string{"qrcode", "barcode"} {
			w := v.get("/verify/" + c.ReferenceID + "/" + name + ".svg")
			h := w.Header()
			if w.Code != http.StatusOK || h.Get("Content-Type") != "image/svg+xml" || h.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.HasPrefix(h.Get("Cache-Control"), "private") || !strings.Contains(h.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%s: status = %d, header %v, want 200 with SVG, a private cache and a sandbox", name, w.Code, h)
			}
			var root struct{ XMLName xml.Name }
			if err := xml.Unmarshal(w.Body.Bytes(), &root); err != nil || root.XMLName.Local != "svg" || root.XMLName.Space != "http://www.w3.org/2000/svg" {
				t.Errorf("%s: the root element is %v, want svg; error %v", name, root.XMLName, err)
			}
			drawn = append(drawn, w.Body.String())
		}
	}
	check()
	v.Work(1)
	check()
	v.revoke(c, "x")
	check()
	// The symbols are the same in all states of the certificate.
	if drawn[0] == drawn[1] || drawn[0] != drawn[2] || drawn[2] != drawn[4] || drawn[1] != drawn[3] || drawn[3] != drawn[5] {
		t.Error("a symbol differs between the states, or the QR code and the barcode are equal")
	}
	if w := v.get("/verify/" + strings.ToLower(c.ReferenceID) + "/qrcode.svg"); w.Body.String() != drawn[0] {
		t.Errorf("the QR code for the reference id in lower case differs from the QR code for upper case: status = %d", w.Code)
	}
	if w := v.get("/verify/" + unknownID + "/qrcode.svg"); w.Code != http.StatusNotFound {
		t.Errorf("an unknown reference id: status = %d, want 404", w.Code)
	}
}

// local returns the path and the query of a URL of the vault.
func local(t *testing.T, address string) string {
	t.Helper()
	rest, ok := strings.CutPrefix(address, base)
	if !ok {
		t.Fatalf("the URL %s does not begin with %s", address, base)
	}
	return rest
}

func TestCapabilityFiles(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	links := map[web.Kind]string{}
	for _, kind := range []web.Kind{web.PDFFile, web.ImageFile, "original"} {
		link, err := v.pages.Links.File(c.UUID, kind)
		if err != nil {
			t.Fatal(err)
		}
		links[kind] = local(t, link)
	}
	checkNotFound := func(name string) {
		t.Helper()
		for kind, link := range links {
			if w := v.getJSON(link); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), c.ReferenceID) {
				t.Errorf("%s, %s: status = %d, want 404; body %s", name, kind, w.Code, w.Body)
			}
		}
	}
	checkNotFound("processing")
	v.Work(1)
	for kind, want := range map[web.Kind]struct{ mediaType, body, name string }{
		web.PDFFile:   {"application/pdf", string(vaulttest.PDF) + tail, c.ReferenceID + ".pdf"},
		web.ImageFile: {"image/png", vaulttest.Picture, c.ReferenceID + ".png"},
	} {
		w := v.get(links[kind])
		h := w.Header()
		if w.Code != http.StatusOK || w.Body.String() != want.body || h.Get("Content-Type") != want.mediaType ||
			h.Get("Content-Disposition") != "inline; filename="+want.name || !strings.HasPrefix(h.Get("Cache-Control"), "private") ||
			!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: status = %d, header %v, want 200 with the file, its media type and name, a private cache and a sandbox", kind, w.Code, h)
		}
	}
	if w := v.get(links["original"]); w.Code != http.StatusNotFound {
		t.Errorf("an unknown kind: status = %d, want 404", w.Code)
	}
	other := v.upload("MSc Physics", "Ada Obi", "diploma.pdf")
	for name, link := range map[string]string{
		"another kind":          strings.Replace(links[web.PDFFile], "/pdf?", "/image?", 1),
		"another certificate":   strings.Replace(links[web.PDFFile], c.UUID, other.UUID, 1),
		"a later expiry":        regexp.MustCompile(`expires=\d+`).ReplaceAllString(links[web.PDFFile], "expires=99999999999"),
		"no signature":          links[web.PDFFile][:strings.IndexByte(links[web.PDFFile], '?')],
		"a truncated signature": links[web.PDFFile][:len(links[web.PDFFile])-4],
	} {
		if w := v.get(link); w.Code != http.StatusNotFound {
			t.Errorf("a link with %s: status = %d, want 404", name, w.Code)
		}
	}
	begin := v.Now()
	v.Set(begin.Add(24*time.Hour - time.Second))
	if w := v.get(links[web.PDFFile]); w.Code != http.StatusOK {
		t.Errorf("before the link expires: status = %d, want 200", w.Code)
	}
	v.Set(begin.Add(24 * time.Hour))
	checkNotFound("after the link has expired")
	v.Set(begin)
	v.revoke(c, "x")
	checkNotFound("revoked")
	if log := v.log.String(); strings.Contains(log, "signature=") || strings.Contains(log, c.UUID) {
		t.Error("the log contains a capability URL")
	}
}
