package public

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/vaulttest"
)

// counted stores the counts and returns the number of verifications of a certificate.
func (v *vault) counted(c *cert.Certificate) int {
	v.tb.Helper()
	if err := v.Verifications.Fold(v.tb.Context()); err != nil {
		v.tb.Fatal(err)
	}
	n, err := v.Verifications.Of(v.tb.Context(), c.InstitutionID, c.ID)
	if err != nil {
		v.tb.Fatal(err)
	}
	return n.Total
}

func TestVerificationsAreCounted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		v := newVault(t, d)
		c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
		v.Work(1)
		waiting := v.upload("MSc Physics", "Ada Obi", "other.pdf")
		path := "/verify/" + c.ReferenceID
		verified := sha256.Sum256(append(vaulttest.PDF, tail...))
		file := "/verify/file/" + hex.EncodeToString(verified[:])
		for _, get := range []func(string) int{
			func(target string) int { return v.get(target).Code }, func(target string) int { return v.getJSON(target).Code },
		} {
			for _, target := range []string{path, path + "?lang=de", file, file + "?reference_id=" + c.ReferenceID} {
				before := v.counted(c)
				if code := get(target); code != http.StatusOK {
					t.Fatalf("GET %s: status = %d, want 200", target, code)
				}
				if got := v.counted(c); got != before+1 {
					t.Errorf("GET %s: %d verifications, want %d", target, got, before+1)
				}
			}
		}
		before := v.counted(c)
		for _, target := range []string{
			path + "/card.png", path + "/badge.svg", path + "/qrcode.svg", path + "/barcode.svg", path + "/certificate.pdf", "/verify", "/verify?reference_id=" + c.ReferenceID,
			"/verify/" + waiting.ReferenceID, "/verify/NWU-0000000000000000", "/verify/file/" + digestOf("unknown"),
		} {
			v.get(target)
		}
		if got := v.counted(c); got != before {
			t.Errorf("%d verifications after requests that are not counted, want %d", got, before)
		}
		if got := v.counted(waiting); got != 0 {
			t.Errorf("%d verifications of a certificate in processing, want 0", got)
		}
		v.revoke(c, "Issued by mistake")
		v.get(path)
		if got := v.counted(c); got != before+1 {
			t.Errorf("%d verifications after a request for the revoked certificate, want %d", got, before+1)
		}
	})
}

func TestProgramsAreNotCounted(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.SQLite(t))
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Work(1)
	path := "/verify/" + c.ReferenceID
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	for name, change := range map[string]func(r *http.Request){
		"a HEAD request":        func(r *http.Request) { r.Method = http.MethodHead },
		"a prefetch":            func(r *http.Request) { r.Header.Set("Sec-Purpose", "prefetch") },
		"a prerendering":        func(r *http.Request) { r.Header.Set("Sec-Purpose", "prefetch;prerender") },
		"a prefetch of Firefox": func(r *http.Request) { r.Header.Set("X-Moz", "prefetch") },
		"a preview of Safari":   func(r *http.Request) { r.Header.Set("X-Purpose", "preview") },
		"a search engine": func(r *http.Request) {
			r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
		},
		"another search engine":  func(r *http.Request) { r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; Baiduspider/2.0)") },
		"a preview of a link":    func(r *http.Request) { r.Header.Set("User-Agent", "facebookexternalhit/1.1") },
		"a preview of a message": func(r *http.Request) { r.Header.Set("User-Agent", "WhatsApp/2.23.20.0") },
		"a monitoring service": func(r *http.Request) {
			r.Header.Set("User-Agent", "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)")
		},
		"a probe of a container": func(r *http.Request) { r.Header.Set("User-Agent", "kube-probe/1.33") },
	} {
		r := request(http.MethodGet, path)
		r.Header.Set("User-Agent", firefox)
		change(r)
		if w := v.do(r); w.Code != http.StatusOK {
			t.Errorf("%s: status = %d, want 200", name, w.Code)
		}
		if got := v.counted(c); got != 0 {
			t.Fatalf("%s was counted as %d verifications, want 0", name, got)
		}
	}
	for i, agent := range []string{
		"", firefox, "curl/8.14", "python-requests/2.32", "Mozilla/5.0 (Linux; Android 13; CUBOT NOTE 20 Build/TP1A) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Mobile Safari/537.36",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0 Mobile Safari/537.36 Telegram-Android/11.13",
	} {
		r := request(http.MethodGet, path)
		r.Header.Set("User-Agent", agent)
		v.do(r)
		if got := v.counted(c); got != i+1 {
			t.Errorf("%d verifications after the request of %q, want %d", got, agent, i+1)
		}
	}
	before := v.counted(c)
	v.pages.IsMember = func(_ *http.Request, institutionID int64) bool { return institutionID == v.inst.ID }
	v.get(path)
	if got := v.counted(c); got != before {
		t.Errorf("%d verifications after a request of a member, want %d", got, before)
	}
}

// A verification is counted in memory. Fold then stores the counts with one change of the database for
// each certificate.
func TestVerificationsAreNotWrittenAtOnce(t *testing.T) {
	t.Parallel()
	d := dbtest.SQLite(t)
	v := newVault(t, d)
	c := v.upload("BSc Physics", "Ada Obi", "diploma.pdf")
	v.Work(1)
	changed := func() (n int) {
		t.Helper()
		if err := d.Writer().QueryRowContext(t.Context(), `SELECT total_changes()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := changed()
	for range 10 {
		v.get("/verify/" + c.ReferenceID)
		v.getJSON("/verify/" + c.ReferenceID)
	}
	if n := changed() - before; n != 0 {
		t.Errorf("20 verifications change %d rows of the database, want 0", n)
	}
	if n := v.counted(c); n != 20 {
		t.Errorf("%d verifications, want 20", n)
	}
	if n := changed() - before; n != 1 {
		t.Errorf("storing the counts changes %d rows of the database, want 1", n)
	}
}
