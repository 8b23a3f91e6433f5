package public

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func (v *vault) let(p account.Public) {
	v.tb.Helper()
	if err := v.pages.Accounts.SetPublic(v.tb.Context(), v.inst.ID, p); err != nil {
		v.tb.Fatal(err)
	}
}

func (v *vault) exec(query string, args ...any) {
	v.tb.Helper()
	if err := v.d.Tx(v.tb.Context(), func(tx *db.Tx) error {
		_, err := tx.ExecContext(v.tb.Context(), query, args...)
		return err
	}); err != nil {
		v.tb.Fatal(err)
	}
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// attributes gives the values of an attribute on the elements of a name.
func attributes(t *testing.T, w *httptest.ResponseRecorder, element, key string) (list []string) {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode || n.Data != element {
			continue
		}
		for _, a := range n.Attr {
			if a.Key == key {
				list = append(list, a.Val)
			}
		}
	}
	return list
}

// What did not run, or did not pass, is never a green tick.
func TestChecksThatDidNotPass(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		v.process(1)
		v.let(account.Public{AllowImage: true, AllowDownload: true})
		set := func(file, signature cert.Result) {
			for name, result := range map[string]cert.Result{"file": file, "signature": signature} {
				v.exec(`UPDATE certificate_checks SET result = $1 WHERE name = $2`, string(result), name)
			}
		}
		for _, tc := range []struct {
			file, signature cert.Result
			says, class     string
			download        int
		}{
			{cert.Passed, cert.Passed, "This certificate is valid", "verdict valid", 200},
			{cert.NotRun, cert.Passed, "Could not check the stored file now", "verdict unchecked", 200},
			{cert.Passed, cert.NotRun, "Could not check the signature now", "verdict unchecked", 200},
			{cert.NotRun, cert.NotRun, "Could not check the file and its signature now", "verdict unchecked", 200},
			{cert.FailedCheck, cert.Passed, "A check did not pass", "verdict damaged", 404},
			{cert.NotRun, cert.FailedCheck, "A check did not pass", "verdict damaged", 404},
		} {
			set(tc.file, tc.signature)
			w := v.get("/verify/" + c.ReferenceID)
			checkPage(t, tc.class, w, http.StatusOK, tc.says, "Ada Obi")
			if !slices.Contains(attributes(t, w, "div", "class"), tc.class) {
				t.Errorf("%s: shown as %v", tc.says, attributes(t, w, "div", "class"))
			}
			if tc.class != "verdict valid" && strings.Contains(words(t, w), "is valid") {
				t.Errorf("%s: called valid: %s", tc.says, words(t, w))
			}
			if w := v.get("/verify/" + c.ReferenceID + "/certificate.pdf"); w.Code != tc.download {
				t.Errorf("%s: the file is answered with %d", tc.says, w.Code)
			}
			var got struct{ Data verification }
			if err := json.Unmarshal(v.getJSON("/verify/"+c.ReferenceID).Body.Bytes(), &got); err != nil ||
				got.Data.Checks[1].Result != string(tc.file) || got.Data.Checks[2].Result != string(tc.signature) ||
				(got.Data.Checks[1].CheckedAt == nil) != (tc.file == cert.NotRun) {
				t.Errorf("%s: %+v, %v", tc.says, got.Data.Checks, err)
			}
		}
	})
}

// A file that an institution lets nobody have is told as one that is not there.
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
					t.Errorf("%s, %s: %d %v", name, target, w.Code, w.Header())
				}
				linked := slices.Contains(append(attributes(t, v.get("/verify/"+c.ReferenceID), "a", "href"), attributes(t, v.get("/verify/"+c.ReferenceID), "img", "src")...), target)
				if linked != (want == 200) {
					t.Errorf("%s: linked to %s: %v", name, target, linked)
				}
			}
		}
		v.let(account.Public{AllowImage: true, AllowDownload: true})
		check("processing", 404, 404)
		v.let(account.Public{})
		v.process(1)
		check("by default", 404, 404)
		v.let(account.Public{AllowImage: true})
		check("picture alone", 404, 200)
		v.let(account.Public{AllowDownload: true})
		check("file alone", 200, 404)
		if got := v.get(pdf).Body.String(); got != string(samplePDF())+tail {
			t.Errorf("the file is %q", got)
		}
		// A setting that was forced past the check still shows no hidden name.
		v.exec(`UPDATE institutions SET hide_name = $1, public_image = $1, public_download = $1`, true)
		check("hidden name", 404, 404)
		v.let(account.Public{AllowImage: true, AllowDownload: true})
		check("both", 200, 200)
		v.revoke(c, "x")
		check("revoked", 404, 404)
		if w := v.get("/verify/" + c.ReferenceID + "/anything.txt"); w.Code != http.StatusNotFound {
			t.Errorf("what there is not: %d", w.Code)
		}
	})
}

func TestHiddenName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload("BSc Physics", "Zenobia Quill", "diploma.pdf")
		v.process(1)
		open := v.get("/verify/" + c.ReferenceID + "/card.png").Body.String()
		v.let(account.Public{HideName: true})
		v.shown.Reset()
		look := func() {
			t.Helper()
			for _, target := range []string{"/verify/" + c.ReferenceID, "/verify/file/" + digestOf(string(samplePDF())+tail), "/verify/file/" + digestOf("x") + "?reference_id=" + c.ReferenceID} {
				w := v.get(target)
				checkPage(t, target, w, http.StatusOK, "does not show names", "BSc Physics")
				var got struct{ Data map[string]any }
				body := v.getJSON(target).Body
				if err := json.Unmarshal(body.Bytes(), &got); err != nil || got.Data["certificate_title"] != "BSc Physics" {
					t.Errorf("%s: %s, %v", target, body, err)
				}
				if name, there := got.Data["full_name"]; !there || name != nil {
					t.Errorf("%s: the name is %v, and there: %v", target, name, there)
				}
			}
		}
		look()
		if hidden := v.get("/verify/" + c.ReferenceID + "/card.png").Body.String(); hidden == open {
			t.Error("the card shows the hidden name")
		}
		v.revoke(c, "x")
		look()
		if shown := v.shown.String(); strings.Contains(shown, "Zenobia") || strings.Contains(shown, "Quill") {
			t.Error("the hidden name is shown")
		}
	})
}

func TestFilesByDigest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		verified, original := digestOf(string(samplePDF())+tail), digestOf(string(samplePDF()))
		ask := func(target string) (*httptest.ResponseRecorder, map[string]any) {
			t.Helper()
			w := v.getJSON(target)
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Header().Get("Cache-Control") != "no-store" {
				t.Fatalf("%s: %s %v, %v", target, w.Body, w.Header(), err)
			}
			return w, got
		}
		unknown := func(name, digest string) {
			t.Helper()
			if w, _ := ask("/verify/file/" + digest); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "NWU") {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		// A staged file, and certificates that wait or failed, are unknown.
		if _, err := v.pages.Certs.Receive(t.Context(), v.inst.UUID, "staged.pdf", bytes.NewReader(samplePDF())); err != nil {
			t.Fatal(err)
		}
		unknown("staged", original)
		v.upload("Failed", "Ada Obi", "refuse.pdf")
		c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		unknown("processing", original)
		unknown("processing", verified)
		held := "/verify/file/" + original + "?reference_id=" + c.ReferenceID
		if w, got := ask(held); w.Code != 200 || got["match"] != "different" || got["data"].(map[string]any)["status"] != "processing" {
			t.Errorf("held against one in processing: %s", w.Body)
		}
		checkPage(t, "held against one in processing", v.get(held), http.StatusOK, "not ready yet")
		v.process(2)
		for _, malformed := range []string{"x", verified[:62], verified + "00", strings.Repeat("z", 64), "%00"} {
			unknown(malformed, malformed)
			if w := v.get("/verify/file/" + malformed); w.Code != http.StatusNotFound {
				t.Errorf("%q: %d", malformed, w.Code)
			}
		}
		unknown("never seen", digestOf("x"))
		checkPage(t, "never seen", v.get("/verify/file/"+digestOf("x")), http.StatusNotFound, "does not know this file", "does not mean that it is a forgery", digestOf("x"))

		for target, want := range map[string]string{verified: "verified", strings.ToUpper(verified): "verified", original: "original"} {
			_, got := ask("/verify/file/" + target)
			data, _ := got["data"].(map[string]any)
			if got["match"] != want || got["count"] != 1.0 || data["reference_id"] != c.ReferenceID || data["status"] != "valid" {
				t.Errorf("%s: %v", want, got)
			}
		}
		checkPage(t, "verified", v.get("/verify/file/"+verified), http.StatusOK, "This certificate is valid", "is, byte for byte, the one that was issued", "Ada Obi")
		checkPage(t, "original", v.get("/verify/file/"+original), http.StatusOK, "This certificate is valid", "is the original, as it was submitted")

		changed := "/verify/file/" + digestOf("changed") + "?reference_id=" + strings.ToLower(c.ReferenceID)
		if w, got := ask(changed); w.Code != 200 || got["match"] != "different" || got["count"] != 0.0 || got["data"].(map[string]any)["status"] != "valid" {
			t.Errorf("changed: %s", w.Body)
		}
		w := v.get(changed)
		checkPage(t, "changed", w, http.StatusOK, "This file is not the one issued", "What differs", digestOf("changed"), verified, "What still holds", "BSc Physics")
		if strings.Contains(words(t, w), "is valid") {
			t.Errorf("a changed file is called valid: %s", words(t, w))
		}
		if w := v.get("/verify/file/" + digestOf("changed") + "?reference_id=" + unknownID); w.Code != http.StatusNotFound {
			t.Errorf("changed, of a certificate that there is not: %d", w.Code)
		}

		// The same original for another certificate of another institution: which one
		// is meant, nobody can tell.
		first := v.inst
		v.inst = v.institution("OTH", "Other")
		other := v.upload("Other", "Somebody Else", "diploma.pdf")
		v.exec(`UPDATE certificates SET status = 'approved', verified_sha256 = $1, verified_size = 1, tail_key = 'x' WHERE uuid = $2`, bytes.Repeat([]byte{7}, 32), other.UUID)
		v.inst = first
		if w, got := ask("/verify/file/" + original); w.Code != 200 || got["match"] != "original" || got["count"] != 2.0 || got["data"] != nil || strings.Contains(w.Body.String(), "Ada") {
			t.Errorf("of two: %s", w.Body)
		}
		w = v.get("/verify/file/" + original)
		checkPage(t, "of two", w, http.StatusOK, "Several certificates were made of this file", "2")
		if text := words(t, w); strings.Contains(text, "Ada") || strings.Contains(text, "Somebody") || strings.Contains(text, c.ReferenceID) {
			t.Errorf("of two: %s", text)
		}
		checkPage(t, "of two, and one is named", v.get("/verify/file/"+original+"?reference_id="+c.ReferenceID), http.StatusOK, "Ada Obi", "is the original")
		checkPage(t, "another's file", v.get("/verify/file/"+verified+"?reference_id="+other.ReferenceID), http.StatusOK,
			"This file is not the one issued", "It is the file of another certificate", c.ReferenceID, other.ReferenceID)

		v.revoke(c, "Issued by mistake")
		if w, got := ask("/verify/file/" + verified); got["match"] != "verified" || got["data"].(map[string]any)["status"] != "revoked" {
			t.Errorf("revoked: %s", w.Body)
		}
		checkPage(t, "revoked", v.get("/verify/file/"+verified), http.StatusOK, "Revoked on", "Issued by mistake", "is, byte for byte")
		checkPage(t, "changed, revoked", v.get(changed), http.StatusOK, "This file is not the one issued", "no longer valid", "Issued by mistake")
		v.checkSecrets()
	})
}

func TestTypoHelp(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.exec(`UPDATE certificates SET reference_id = $1, reference_folded = $2`, example, cert.FoldReference(example))
	near := "/verify/NWU-7K3M9QX2P4RTVWBZ"
	if text := words(t, v.get(near)); strings.Contains(text, "Did you mean") {
		t.Errorf("one in processing is told: %s", text)
	}
	v.exec(`UPDATE certificates SET status = 'approved' WHERE uuid = $1`, c.UUID)
	w := v.get(near)
	checkPage(t, "near", w, http.StatusNotFound, "No such certificate", "Did you mean "+example+" ?")
	if !slices.Contains(attributes(t, w, "a", "href"), "/verify/"+example) || !slices.Contains(attributes(t, w, "input", "value"), "NWU-7K3M9QX2P4RTVWBZ") {
		t.Errorf("near: %s", w.Body)
	}
	checkPage(t, "wrong character", v.get("/verify/NWU-7K3M9QX2P4RTVWUH"), http.StatusNotFound, "The marked character, U , cannot be right")
	checkPage(t, "too short", v.get("/verify?reference_id=NWU-7K3M9QX2P4"), http.StatusNotFound, "there are 10 characters")
	checkPage(t, "too long", v.get("/verify/"+example+"00"), http.StatusNotFound, "there are 18 characters")
	checkPage(t, "nothing wrong", v.get("/verify/"+unknownID), http.StatusNotFound, "Compare each character")
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	ask := func(target, accept string) *httptest.ResponseRecorder {
		r := request(http.MethodGet, target)
		r.Header.Set("Accept-Language", accept)
		return v.do(r)
	}
	for _, tc := range []struct{ target, accept, tag, dir, says string }{
		{"/verify", "", "en", "ltr", "Verify a certificate"},
		{"/verify", "de-CH,de;q=0.9", "de", "ltr", "Zertifikat prüfen"},
		{"/verify?lang=ar", "de", "ar", "rtl", "التحقق من شهادة"},
		{"/verify?lang=xx", "fr", "fr", "ltr", "Vérifier un certificat"},
		{"/verify/" + unknownID + "?lang=zh", "", "zh", "ltr", "此处没有这份证书"},
		{"/no-such-page?lang=es", "", "es", "ltr", "No existe esta página"},
	} {
		w := ask(tc.target, tc.accept)
		if !strings.Contains(words(t, w), tc.says) || w.Header().Get("Content-Language") != tc.tag || !slices.Contains(w.Header().Values("Vary"), "Accept-Language") ||
			!slices.Equal(attributes(t, w, "html", "lang"), []string{tc.tag}) || !slices.Equal(attributes(t, w, "html", "dir"), []string{tc.dir}) {
			t.Errorf("%s, %s: %v %s", tc.target, tc.accept, w.Header(), words(t, w))
		}
	}
	// A language that was chosen stays chosen; one that the browser asked for is
	// not written into links.
	w := ask("/verify/"+c.ReferenceID+"?lang=fr&x=1", "")
	links := attributes(t, w, "a", "href")
	for _, want := range []string{"/verify?lang=fr", "/signatures?lang=fr", "/verify/" + c.ReferenceID + "?lang=ar&x=1"} {
		if !slices.Contains(links, want) {
			t.Errorf("no link to %s in %v", want, links)
		}
	}
	w = ask("/verify?lang=fr", "")
	if !slices.Contains(attributes(t, w, "input", "name"), "lang") || !slices.Contains(attributes(t, w, "section", "data-drop"), "/verify/file/?lang=fr") {
		t.Errorf("the forms lose the language: %s", w.Body)
	}
	if links := attributes(t, ask("/verify", "fr"), "a", "href"); !slices.Contains(links, "/signatures") {
		t.Errorf("a language nobody chose is in %v", links)
	}
	if w := ask("/verify?lang=fr&reference_id="+c.ReferenceID, ""); w.Header().Get("Location") != "/verify/"+c.ReferenceID+"?lang=fr" {
		t.Errorf("a look-up leads to %s", w.Header().Get("Location"))
	}
}

// The links to other languages repeat the address, whatever it is, and never lead
// elsewhere.
func TestLinksOfAHostileAddress(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	for _, target := range []string{"//evil.example/x", "///evil.example", "/%2F%2Fevil.example", `/\evil.example`, `/verify?"onfocus="alert(1)`, "/x%22%3E%3Cb%3E", "/verify?lang=%22%3E%3Cb%3E&a=<b>"} {
		r := request(http.MethodGet, "/")
		path, query, _ := strings.Cut(target, "?")
		r.URL.Path, r.URL.RawQuery = path, query
		if unescaped, err := url.PathUnescape(path); err == nil {
			r.URL.Path, r.URL.RawPath = unescaped, path
		}
		w := v.do(r)
		checkMarkup(t, w)
		links := attributes(t, w, "a", "href")
		if len(links) < 8 {
			t.Errorf("%s: only %v", target, links)
		}
		for _, link := range links {
			if u, err := url.Parse(link); err != nil || u.Host != "" || strings.HasPrefix(link, "//") || strings.Contains(link, `\`) {
				t.Errorf("%s: the page leads to %s, %v", target, link, err)
			}
		}
	}
}

// Every page can be drawn in every language.
func TestEveryStateInEveryLanguage(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	made := map[string]*cert.Certificate{}
	for _, title := range []string{"valid", "revoked", "damaged", "unchecked"} {
		made[title] = v.upload(title, "Ada Obi", "diploma.pdf")
	}
	v.process(len(made))
	v.revoke(made["revoked"], "x")
	for title, result := range map[string]string{"damaged": "failed", "unchecked": "not_run"} {
		v.exec(`UPDATE certificate_checks SET result = $1 WHERE certificate_id = $2`, result, made[title].ID)
	}
	made["processing"] = v.upload("processing", "Ada Obi", "diploma.pdf")
	targets := []string{
		"/verify", "/signatures", "/nothing", "/verify/" + unknownID, "/verify/NWU-7K3M9QX2P4RTVWUZ", "/verify/NWU", "/verify/file/" + digestOf("x"),
		"/verify/file/" + digestOf(string(samplePDF())), "/verify/file/" + digestOf(string(samplePDF())+tail),
		"/verify/file/" + digestOf("x") + "?reference_id=" + made["valid"].ReferenceID, "/verify/file/" + digestOf("x") + "?reference_id=" + made["revoked"].ReferenceID,
	}
	for _, c := range made {
		targets = append(targets, "/verify/"+c.ReferenceID)
	}
	english := map[string]string{}
	for _, l := range v.pages.view.Languages() {
		for _, target := range targets {
			u, err := url.Parse(target)
			if err != nil {
				t.Fatal(err)
			}
			q := u.Query()
			q.Set("lang", l.Tag)
			u.RawQuery = q.Encode()
			w := v.get(u.String())
			if w.Code >= 500 || w.Header().Get("Content-Language") != l.Tag {
				t.Errorf("%s in %s: %d", target, l.Tag, w.Code)
			}
			text := words(t, w)
			if l.Tag == "en" {
				english[target] = text
			} else if text == english[target] {
				t.Errorf("%s is in English in %s", target, l.Tag)
			}
		}
	}
}

func TestOpenGraph(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	if w := v.get("/verify/" + c.ReferenceID + "/card.png"); w.Code != http.StatusNotFound {
		t.Errorf("in processing there is a card: %d", w.Code)
	}
	if text := v.get("/verify/" + c.ReferenceID).Body.String(); strings.Contains(text, "og:") {
		t.Errorf("in processing the page tells networks: %s", text)
	}
	v.process(1)
	w := v.get("/verify/" + c.ReferenceID)
	if content := attributes(t, w, "meta", "content"); !slices.Contains(content, base+"/verify/"+c.ReferenceID+"/card.png") || !slices.Contains(content, "BSc Physics · Ada Obi") || !slices.Contains(content, "noindex") {
		t.Errorf("the page tells networks %v", content)
	}
	card := func() image.Image {
		t.Helper()
		w := v.get("/verify/" + c.ReferenceID + "/card.png")
		m, err := png.Decode(w.Body)
		if err != nil || w.Header().Get("Content-Type") != "image/png" || w.Header().Get("Cache-Control") != "no-store" || m.Bounds() != image.Rect(0, 0, 1200, 630) {
			t.Fatalf("the card: %d %v, %v", w.Code, w.Header(), err)
		}
		return m
	}
	valid := card()
	v.revoke(c, "x")
	if top := card().At(10, 10); top == valid.At(10, 10) {
		t.Error("the card of a revoked certificate looks like that of another")
	}
	for _, target := range []string{"/verify", "/signatures"} {
		if w := v.get(target); w.Header().Get("X-Robots-Tag") != "" || slices.Contains(attributes(t, w, "meta", "content"), "noindex") {
			t.Errorf("%s is kept from search engines", target)
		}
	}
	for _, target := range []string{"/verify/" + c.ReferenceID, "/verify/" + unknownID, "/nothing", "/verify/file/" + digestOf("x")} {
		if w := v.get(target); w.Header().Get("X-Robots-Tag") != "noindex" {
			t.Errorf("%s may be found by search engines", target)
		}
	}
}

// A text that the card's fonts cannot write is left out, and never boxes.
func TestDrawable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"Ada Obi": true, "Zoë Šimůnek": true, "Łukasz Żółć": true, "Ελένη": true, "Дарья": true, "ليلى": false, "陈伟": false, "अदिति": false, "Ada 🎓": false, "": false, " ": false,
	} {
		if drawable(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	d := &drawing{Image: image.NewNRGBA(image.Rect(0, 0, 10, 10))}
	if lines := d.wrap("one two three four five six seven eight nine ten", 60, true, 300, 2); len(lines) != 2 || strings.Join(lines, " ") != "one two three four five six seven eight nine ten" {
		t.Errorf("wrapped: %q", lines)
	}
	if got := shorten("abcdef", func(s string) bool { return len([]rune(s)) <= 4 }); got != "abc…" {
		t.Errorf("shortened: %q", got)
	}
}

func TestInstitutionsFace(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.process(1)
	for contact, link := range map[string]string{
		"registry@example.org": "mailto:registry@example.org", "https://example.org/registry?x=1": "https://example.org/registry?x=1",
		"javascript:alert(1)": "", "http://example.org": "", "Room 12, +41 44 000 00 00": "", `"><script>alert(1)</script>`: "",
	} {
		v.let(account.Public{Contact: contact})
		w := v.get("/verify/" + c.ReferenceID)
		checkPage(t, contact, w, http.StatusOK, "Contact of the institution", contact)
		outside := slices.DeleteFunc(attributes(t, w, "a", "href"), func(s string) bool { return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "#") })
		if strings.Join(outside, " ") != link {
			t.Errorf("%s leads to %v", contact, outside)
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
		t.Errorf("the logo at %q: %d %v", found, w.Code, w.Header())
	}
	for _, target := range []string{"/logos/other" + strings.TrimPrefix(found, "/logos/nwu"), "/logos/nwu/" + digestOf("x"), "/logos/nwu/x"} {
		if w := v.get(target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

func TestPagesAreCompressed(t *testing.T) {
	t.Parallel()
	v := newVault(t, sqlite(t))
	for _, target := range []string{"/verify", attributes(t, v.get("/verify"), "script", "src")[0]} {
		plain := v.get(target).Body.String()
		for accept, want := range map[string]bool{"gzip, br": true, "br;q=1, gzip;q=0.5": true, "gzip;q=0": false, "gzip;q=0.000": false, "identity": false, "": false} {
			r := request(http.MethodGet, target)
			r.Header.Set("Accept-Encoding", accept)
			w := v.do(r)
			if (w.Header().Get("Content-Encoding") == "gzip") != want || !slices.Contains(w.Header().Values("Vary"), "Accept-Encoding") {
				t.Errorf("%s, %q: %v", target, accept, w.Header())
			}
			body := io.Reader(w.Body)
			if want {
				if w.Body.Len() > len(plain)/2 {
					t.Errorf("%s: %d bytes became %d", target, len(plain), w.Body.Len())
				}
				var err error
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(body); err != nil || string(got) != plain {
				t.Errorf("%s, %q: another text, %v", target, accept, err)
			}
		}
	}
}

// BenchmarkPage is the page of a valid certificate without the network.
func BenchmarkPage(b *testing.B) {
	v := newVault(b, sqlite(b))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.process(1)
	r := request(http.MethodGet, "/verify/"+c.ReferenceID)
	r.Header.Set("Accept-Encoding", "gzip")
	r.Header.Set("Accept-Language", "en-GB,en;q=0.9,fr;q=0.8")
	for b.Loop() {
		w := httptest.NewRecorder()
		v.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}
