package public

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// If a check failed or did not run, the page does not show the certificate as valid.
func TestChecksThatDidNotPass(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		v.Work(1)
		v.setPublic(account.Public{AllowImage: true, AllowDownload: true})
		set := func(file, signature cert.Result) {
			for name, result := range map[string]cert.Result{"file": file, "signature": signature} {
				v.Exec(`UPDATE certificate_checks SET result = $1 WHERE name = $2`, string(result), name)
			}
		}
		for _, tc := range []struct {
			file, signature cert.Result
			text, class     string
			download        int
		}{
			{cert.Passed, cert.Passed, "This certificate is valid", "verdict valid", 200},
			{cert.NotRun, cert.Passed, "The stored file could not be checked at the moment", "verdict unchecked", 200},
			{cert.Passed, cert.NotRun, "The signature could not be checked at the moment", "verdict unchecked", 200},
			{cert.NotRun, cert.NotRun, "The file and its signature could not be checked at the moment", "verdict unchecked", 200},
			{cert.FailedCheck, cert.Passed, "A check failed", "verdict damaged", 404},
			{cert.NotRun, cert.FailedCheck, "A check failed", "verdict damaged", 404},
		} {
			set(tc.file, tc.signature)
			w := v.get("/verify/" + c.ReferenceID)
			checkPage(t, tc.class, w, http.StatusOK, tc.text, "Ada Obi")
			if !slices.Contains(attributes(t, w, "div", "class"), tc.class) {
				t.Errorf("%s: the classes are %v, want %q among them", tc.text, attributes(t, w, "div", "class"), tc.class)
			}
			if tc.class != "verdict valid" && strings.Contains(textOf(t, w), "is valid") {
				t.Errorf("%s: the page contains \"is valid\": %s", tc.text, textOf(t, w))
			}
			if w := v.get("/verify/" + c.ReferenceID + "/certificate.pdf"); w.Code != tc.download {
				t.Errorf("%s: downloading the file: status = %d, want %d", tc.text, w.Code, tc.download)
			}
			var got struct{ Data verification }
			if err := json.Unmarshal(v.getJSON("/verify/"+c.ReferenceID).Body.Bytes(), &got); err != nil ||
				got.Data.Checks[1].Result != string(tc.file) || got.Data.Checks[2].Result != string(tc.signature) ||
				(got.Data.Checks[1].CheckedAt == nil) != (tc.file == cert.NotRun) {
				t.Errorf("%s: the checks are %+v, want the stored results, with a time only for a check that ran; error %v", tc.text, got.Data.Checks, err)
			}
		}
	})
}

func TestHiddenName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload("BSc Physics", "Zenobia Quill", "diploma.pdf")
		v.Work(1)
		openCard := v.get("/verify/" + c.ReferenceID + "/card.png").Body.String()
		v.setPublic(account.Public{HideName: true})
		v.written.Reset()
		check := func() {
			t.Helper()
			for _, target := range []string{"/verify/" + c.ReferenceID, "/verify/file/" + digestOf(string(vaulttest.PDF)+tail), "/verify/file/" + digestOf("x") + "?reference_id=" + c.ReferenceID} {
				w := v.get(target)
				checkPage(t, target, w, http.StatusOK, "does not publish names", "BSc Physics")
				var got struct{ Data map[string]any }
				body := v.getJSON(target).Body
				if err := json.Unmarshal(body.Bytes(), &got); err != nil || got.Data["certificate_title"] != "BSc Physics" {
					t.Errorf("%s: body %s, want the title BSc Physics; error %v", target, body, err)
				}
				if name, present := got.Data["full_name"]; !present || name != nil {
					t.Errorf("%s: full_name = %v (present: %v), want null", target, name, present)
				}
			}
		}
		check()
		if hidden := v.get("/verify/" + c.ReferenceID + "/card.png").Body.String(); hidden == openCard {
			t.Error("hiding the name does not change the card")
		}
		v.revoke(c, "x")
		check()
		if written := v.written.String(); strings.Contains(written, "Zenobia") || strings.Contains(written, "Quill") {
			t.Error("a response contains the hidden name")
		}
	})
}

// The public pages of a test vault have a note in the language of the page.
func TestNoteOfATestVault(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	page := "/verify/" + v.upload("BSc Physics", "Ada Obi", "diploma.pdf").ReferenceID
	if text := textOf(t, v.get(page)); strings.Contains(text, "Test vault") {
		t.Errorf("a page of a real vault has the note of a test vault: %s", text)
	}
	v.pages.Site.ShowTest()
	v.newHandler()
	checkPage(t, "a certificate", v.get(page), http.StatusOK, "Test vault. Its certificates are for testing only.")
	checkPage(t, "the form", v.get("/verify?lang=de"), http.StatusOK, "Testtresor. Seine Zertifikate dienen nur zum Testen.")
}

func TestUnknownPageSuggestsCorrections(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Exec(`UPDATE certificates SET reference_id = $1, reference_folded = $2`, example, cert.FoldReference(example))
	near := "/verify/NWU-7K3M9QX2P4RTVWBZ"
	if text := textOf(t, v.get(near)); strings.Contains(text, "Did you mean") {
		t.Errorf("the page suggests a certificate in processing: %s", text)
	}
	v.Exec(`UPDATE certificates SET status = 'approved' WHERE uuid = $1`, c.UUID)
	w := v.get(near)
	checkPage(t, "near", w, http.StatusNotFound, "Certificate not found", "Did you mean "+example+" ?")
	if !slices.Contains(attributes(t, w, "a", "href"), "/verify/"+example) || !slices.Contains(attributes(t, w, "input", "value"), "NWU-7K3M9QX2P4RTVWBZ") {
		t.Errorf("the page for a similar reference id does not have the link to it or the entered text: %s", w.Body)
	}
	checkPage(t, "wrong character", v.get("/verify/NWU-7K3M9QX2P4RTVWUH"), http.StatusNotFound, "The marked character, U , cannot be in this position")
	checkPage(t, "too short", v.get("/verify?reference_id=NWU-7K3M9QX2P4"), http.StatusNotFound, "Number of characters after the prefix: 10")
	checkPage(t, "too long", v.get("/verify/"+example+"00"), http.StatusNotFound, "Number of characters after the prefix: 18")
	checkPage(t, "well-formed id", v.get("/verify/"+unknownID), http.StatusNotFound, "Compare each character")
}

func TestPublicProfile(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Work(1)
	for contact, link := range map[string]string{
		"registry@example.org": "mailto:registry@example.org", "https://example.org/registry?x=1": "https://example.org/registry?x=1",
		"javascript:alert(1)": "", "http://example.org": "", "Room 12, +41 44 000 00 00": "", `"><script>alert(1)</script>`: "",
	} {
		v.setPublic(account.Public{Contact: contact})
		w := v.get("/verify/" + c.ReferenceID)
		checkPage(t, contact, w, http.StatusOK, "Contact", contact)
		outside := slices.DeleteFunc(attributes(t, w, "a", "href"), func(s string) bool { return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "#") })
		if strings.Join(outside, " ") != link {
			t.Errorf("the external links for the contact %s are %v, want %q", contact, outside, link)
		}
	}
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 60, 20))); err != nil {
		t.Fatal(err)
	}
	if err := v.pages.Accounts.SetLogo(t.Context(), v.inst.ID, logo.Bytes()); err != nil {
		t.Fatal(err)
	}
	var found string
	for _, src := range attributes(t, v.get("/verify/"+c.ReferenceID), "img", "src") {
		if strings.HasPrefix(src, "/logos/nwu/") {
			found = src
		}
	}
	w := v.get(found)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("the logo at %q: status = %d, want 200 with a PNG and an immutable cache; header %v", found, w.Code, w.Header())
	}
	for _, target := range []string{"/logos/other" + strings.TrimPrefix(found, "/logos/nwu"), "/logos/nwu/" + digestOf("x"), "/logos/nwu/x"} {
		if w := v.get(target); w.Code != http.StatusNotFound {
			t.Errorf("%s: status = %d, want 404", target, w.Code)
		}
	}
}

func TestPagesAreCompressed(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	for _, target := range []string{"/verify", attributes(t, v.get("/verify"), "script", "src")[0]} {
		plain := v.get(target).Body.String()
		for accept, want := range map[string]bool{"gzip, br": true, "br;q=1, gzip;q=0.5": true, "gzip;q=0": false, "gzip;q=0.000": false, "identity": false, "": false} {
			r := request(http.MethodGet, target)
			r.Header.Set("Accept-Encoding", accept)
			w := v.do(r)
			if (w.Header().Get("Content-Encoding") == "gzip") != want || !slices.Contains(w.Header().Values("Vary"), "Accept-Encoding") {
				t.Errorf("%s, Accept-Encoding %q: header %v, want gzip only if accepted, and Vary", target, accept, w.Header())
			}
			body := io.Reader(w.Body)
			if want {
				if w.Body.Len() > len(plain)/2 {
					t.Errorf("%s: %d bytes were compressed to %d, want at most half", target, len(plain), w.Body.Len())
				}
				var err error
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(body); err != nil || string(got) != plain {
				t.Errorf("%s, Accept-Encoding %q: the decoded body differs from the body without compression; error %v", target, accept, err)
			}
		}
	}
}

// BenchmarkPage measures the page of a valid certificate without the network, with and without counting the
// verification.
func BenchmarkPage(b *testing.B) {
	v := newVault(b, dbtest.SQLite(b))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Work(1)
	r := request(http.MethodGet, "/verify/"+c.ReferenceID)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Accept-Language", "en-GB,en;q=0.9,fr;q=0.8")
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 Safari/537.36")
	for name, verified := range map[string]func(int64){"counted": v.pages.Verified, "uncounted": nil} {
		b.Run(name, func(b *testing.B) {
			v.pages.Verified = verified
			for b.Loop() {
				w := httptest.NewRecorder()
				v.handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
