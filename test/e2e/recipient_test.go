//go:build e2e

package e2e

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/certvault/certvault/client"
	"github.com/certvault/certvault/test/vault"
)

// singleTime is the maximum time from the approval of a single upload to the mail about the
// certificate.
const singleTime = 10 * time.Second

// notified returns the recipients of the mails about certificates, sorted.
func notified(t *testing.T, v *vault.Vault) (to []string) {
	t.Helper()
	for _, l := range letters(t, v) {
		if strings.Contains(l.Subject, "certificate") {
			to = append(to, l.To)
		}
	}
	slices.Sort(to)
	return to
}

// visit sends a request without cookies. If body is not empty, the content type is that of a form.
func visit(t *testing.T, f *fixture, method, target, body string) (status int, header http.Header, text []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.URL+strings.TrimPrefix(target, f.URL), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	transport, err := f.Transport()
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, content
}

// TestRecipientInBrowser uses certificates as their recipient does. It checks the mail, the
// account, the list of certificates, a share link, a request for a correction, the pages after a
// revocation, the export, and the deletion of the account.
func TestRecipientInBrowser(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		f := start(t, database)
		const email = "zoe.obi@example.org"
		first := f.upload(t, form("Zoe Obi"))
		f.await(t, first.UUID, "approved")
		if c := f.await(t, first.UUID, "approved"); c.CustomerID != nil {
			t.Errorf("before the sign-up, the certificate belongs to customer %d, want no customer", *c.CustomerID)
		}
		link := awaitLink(t, f.Vault, email, "/c/")

		// A mail scanner may request all links of the mail several times. These requests change
		// nothing.
		letter := awaitLetter(t, f.Vault, email, "Your certificate")
		if letter.Size > 60<<10 || !slices.Contains(letter.Pictures, "image/jpeg") ||
			letter.Header.Get("Auto-Submitted") != "auto-generated" || letter.Header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" {
			t.Errorf("the mail has %d bytes and the headers %v, want at most 60 KiB, a JPEG picture, Auto-Submitted and List-Unsubscribe-Post", letter.Size, letter.Header)
		}
		for _, found := range regexp.MustCompile(`https://\S+`).FindAllString(letter.Text, -1) {
			if !strings.HasPrefix(found, f.URL) {
				if !strings.HasPrefix(found, "https://www.linkedin.com/profile/add?") {
					t.Errorf("the mail has the unexpected link %s", found)
				}
				continue
			}
			caching := "no-store"
			if strings.HasSuffix(found, ".pdf") {
				caching = "private, no-cache"
			}
			for range 2 {
				status, h, _ := visit(t, f, http.MethodGet, found, "")
				if status != http.StatusOK || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Cache-Control") != caching || h.Get("Set-Cookie") != "" {
					t.Errorf("GET %s: status %d, headers %v; want 200, no-referrer, %s and no cookie", found, status, h, caching)
				}
			}
		}

		b := browse(t, f.Vault)
		b.open(link)
		b.see("This certificate is valid", "Zoe Obi", "Northwind University", first.ReferenceID, "Add to LinkedIn", "Keep your certificates in one place")
		b.until("the picture is not shown", `(() => { const i = document.querySelector(".picture img"); i.scrollIntoView(); return i.complete && i.naturalWidth > 100; })()`)
		address, err := url.Parse(evaluate[string](b, `document.querySelector("a[href*=linkedin]").href`))
		if err != nil {
			t.Fatal(err)
		}
		q := address.Query()
		today := time.Now().UTC()
		for name, want := range map[string]string{
			"startTask": "CERTIFICATION_NAME", "name": "Diploma", "organizationName": "Northwind University", "certId": first.ReferenceID,
			"certUrl": f.URL + "/verify/" + first.ReferenceID, "issueYear": today.Format("2006"), "issueMonth": today.Format("1"),
		} {
			if q.Get(name) != want || len(q) != 7 {
				t.Errorf("the link to LinkedIn has %s=%q, want %q and 7 parameters: %v", name, q.Get(name), want, q)
			}
		}
		for _, file := range []string{"certificate.pdf", "image.png", "original"} {
			status, _, content := visit(t, f, http.MethodGet, link+"/"+first.UUID+"/"+file, "")
			if status != http.StatusOK || file == "original" && !bytes.Equal(content, sample("Zoe Obi")) {
				t.Errorf("file %s of the mailed link: status %d, %d bytes; want 200 and the file", file, status, len(content))
			}
		}
		b.screenshot("mail-link")

		// The form already contains the address. The new account claims the existing certificate and
		// all later certificates of this address.
		b.press("Create account")
		b.at("/sign-up")
		b.press("Send link")
		b.at("/sign-up/sent")
		b.open(awaitLink(t, f.Vault, email, "/sign-up/"))
		b.fill("name", "Zoe Obi")
		b.fill("password", newPassword)
		b.press("Create account")
		b.at("/account")
		b.see("My certificates", "Diploma", "Certificates: 1")
		if c := f.await(t, first.UUID, "approved"); c.CustomerID == nil || *c.CustomerID != 1 {
			t.Error("the certificate does not belong to customer 1")
		}
		second := f.upload(t, vault.NewForm("Master of Law", "Zoë", "ZOE.OBI@EXAMPLE.ORG", "m.pdf", sample("Zoë")))
		f.await(t, second.UUID, "approved")
		awaitLink(t, f.Vault, email, "/account/certificates/")
		b.open("/account?search=law&status=approved")
		b.see("Master of Law", "Certificates: 1")
		b.screenshot("wallet")
		b.press("Master of Law")
		b.at("/account/certificates/" + second.UUID)

		// A share link works in another browser.
		b.press("Create a share link")
		b.fill("label", "Application to Acme")
		b.press("Create link")
		b.see("Copy it now", "Application to Acme", "Unlisted")
		share := evaluate[string](b, `document.querySelector(".made a").href`)
		b.screenshot("shared")
		other := browse(t, f.Vault)
		other.open(share)
		other.see("This certificate is valid", "Master of Law", "Zoë")
		if robots := evaluate[bool](other, `Boolean(document.querySelector("meta[name=robots][content=noindex]"))`); !robots {
			t.Error("the page of an unlisted certificate does not have the robots value noindex")
		}
		path := strings.TrimPrefix(share, f.URL)
		for file, want := range map[string]int{"certificate.pdf": http.StatusOK, "image.png": http.StatusOK, "original": http.StatusNotFound} {
			if status, _, _ := visit(t, f, http.MethodGet, path+"/"+file, ""); status != want {
				t.Errorf("file %s of the share link: status = %d, want %d", file, status, want)
			}
		}
		if status, _, _ := visit(t, f, http.MethodPost, link+"/"+second.UUID+"/shares", "label=x"); status != http.StatusNotFound {
			t.Errorf("creating a share link to a certificate with the mailed link of another certificate: status = %d, want 404", status)
		}

		// The recipient requests a correction.
		b.press("Request a correction")
		b.fill("text", "My name is Zoë Obi.")
		b.press("Send request")
		b.see("Your request was sent to the institution.")
		const covered = `document.querySelector("[role=status]").getBoundingClientRect().bottom > document.querySelector(".verdict").getBoundingClientRect().top`
		if evaluate[bool](b, covered) {
			t.Error("the notice overlaps the verdict on the certificate")
		}
		awaitLetter(t, f.Vault, "owner@nwu.example", "My name is Zoë Obi.")

		// The page of a revoked certificate shows the revocation and has no files.
		post(t, f.client, "/business/certificate-vault/"+second.UUID+"/revoke", `{"reason":"Issued in error"}`, http.StatusOK)
		other.open(share)
		other.see("Revoked on", "Issued in error")
		for _, file := range []string{"certificate.pdf", "image.png"} {
			if status, _, _ := visit(t, f, http.MethodGet, path+"/"+file, ""); status != http.StatusNotFound {
				t.Errorf("%s after the revocation: status = %d, want 404", file, status)
			}
		}
		b.open("/account?status=revoked")
		b.see("Master of Law", "Revoked")
		b.press("Master of Law")
		b.press("Revoke")
		b.see("The link was revoked.")
		other.open(share)
		other.see("This link does not work")
		if log := f.Log(); strings.Contains(log, path[len("/s/"):]) || strings.Contains(log, email) {
			t.Error("the log contains the share link or the address of the recipient")
		}
		export(t, f, b, second.ReferenceID)

		// The account is deleted, but the certificates are not.
		b.open("/account/delete")
		b.fill("confirm", "another@example.org")
		b.press("Delete my account permanently")
		b.see("This is not the address of your account.")
		b.fill("confirm", email)
		b.press("Delete my account permanently")
		b.at("/account/deleted")
		b.open("/account")
		b.at("/sign-in")
		if c := f.await(t, first.UUID, "approved"); c.CustomerID != nil {
			t.Error("the certificate of the deleted account still belongs to a customer")
		}
	})
}

// export downloads the ZIP file with the data of the signed-in person and checks the names of its
// files and the sessions in export.json.
func export(t *testing.T, f *fixture, b *tab, reference string) {
	t.Helper()
	b.open("/account/export")
	b.see("Export my data")
	stored, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL+"/account/export", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range stored.Cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	r.Header.Set("Origin", f.URL)
	transport, err := f.Transport()
	if err != nil {
		t.Fatal(err)
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatalf("the export with status %d is not a ZIP file: %v", response.StatusCode, err)
	}
	var names []string
	for _, file := range z.File {
		names = append(names, file.Name)
	}
	if !slices.Contains(names, "export.json") || !slices.Contains(names, reference+"/"+reference+".pdf") || len(names) != 5 {
		t.Errorf("the export contains the files %v, want 5 with export.json and the PDF of the certificate", names)
	}
	about, err := fs.ReadFile(z, "export.json")
	if err != nil || !strings.Contains(string(about), "Chrome/") {
		t.Errorf("export.json does not contain the sessions of the person: %v, %s", err, about)
	}
}

// TestNoticesSurviveKill kills the vault between the approvals of certificates and the mails about
// the certificates. At the end there is exactly one mail about each certificate.
func TestNoticesSurviveKill(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		var want []string
		for i := range 3 {
			names := people("Recipient"+string(rune('A'+i)), 4)
			for _, name := range names {
				f.upload(t, form(name))
				want = append(want, mailbox(name))
			}
			d := f.database(t)
			// A notice is stored with the approval of a certificate. Its mail may not be sent yet.
			eventually(t, approvalTime, "a certificate is approved", func() bool {
				return count(t, d, `SELECT count(*) FROM notices`) > 4*i
			})
			f.Kill()
			f.restart(t)
		}
		slices.Sort(want)
		eventually(t, 2*approvalTime, "all mails are sent", func() bool { return len(notified(t, f.Vault)) >= len(want) })
		if got := notified(t, f.Vault); !slices.Equal(got, want) {
			t.Errorf("mails were sent to %v, want %v", got, want)
		}
		d := f.database(t)
		eventually(t, singleTime, "all notices are written to the outbox folder", func() bool {
			return count(t, d, `SELECT count(*) FROM notices WHERE status <> 'unsent'`) == 0
		})
	})
}

// TestBatchIsMailedOncePerAddress submits a batch with twelve entries for three addresses. The
// vault sends one mail to each address.
func TestBatchIsMailedOncePerAddress(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		f := start(t, database)
		file := f.stage(t, "Jane Doe")
		var list []client.Entry
		for i := range 12 {
			who := []string{"ada", "Eva", "kim"}[i%3]
			list = append(list, client.Entry{
				Index: i, CertificateTitle: "Course " + string(rune('A'+i)), FullName: who, ApplicantEmail: who + "@example.org", FileID: file,
			})
		}
		id := f.submit(t, list)
		eventually(t, batchTime, "the batch is finished", func() bool { return f.batch(t, id).Status == "completed" })
		eventually(t, singleTime, "all mails are sent", func() bool { return len(notified(t, f.Vault)) >= 3 })
		if got := notified(t, f.Vault); !slices.Equal(got, []string{"Eva@example.org", "ada@example.org", "kim@example.org"}) {
			t.Fatalf("mails were sent to %v, want one to each address", got)
		}
		_, _, page := visit(t, f, http.MethodGet, awaitLink(t, f.Vault, "ada@example.org", "/c/"), "")
		for _, title := range []string{"Course A", "Course D", "Course G", "Course J"} {
			if !bytes.Contains(page, []byte(title)) {
				t.Errorf("the page does not list %s", title)
			}
		}
		if bytes.Contains(page, []byte("Course B")) {
			t.Error("the page of ada@example.org lists Course B, which belongs to another address")
		}
	})
}

// TestSingleUploadIsMailed checks that the mail is in the outbox within singleTime after the approval.
func TestSingleUploadIsMailed(t *testing.T) {
	t.Parallel()
	f := start(t, "")
	c := f.upload(t, form("Ada Obi"))
	f.await(t, c.UUID, "approved")
	eventually(t, singleTime, "the mail is in the outbox", func() bool { return len(notified(t, f.Vault)) == 1 })
}

// TestUnsubscribeAndBounce unsubscribes an address, which then gets no more mail. It also sends
// invalid bounce reports.
func TestUnsubscribeAndBounce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, database string) {
		const secret = "0123456789abcdefgh"
		f := start(t, database, "--bounce-domain", "bounces.example", "--bounce-token", secret)
		f.await(t, f.upload(t, form("Ada Obi")).UUID, "approved")
		link := awaitLink(t, f.Vault, "ada.obi@example.org", "/unsubscribe/")
		// A mail program sends this request without showing a page (RFC 8058).
		if status, _, text := visit(t, f, http.MethodPost, link, "List-Unsubscribe=One-Click"); status != http.StatusOK || !bytes.Contains(text, []byte("You are unsubscribed")) {
			t.Errorf("unsubscribing: status = %d, want 200 and a page that confirms", status)
		}
		next := f.upload(t, vault.NewForm("Second", "Ada Obi", "ada.obi@example.org", "a.pdf", sample("Ada")))
		f.await(t, next.UUID, "approved")
		d := f.database(t)
		eventually(t, singleTime, "the status of the notice is unsubscribed", func() bool {
			return count(t, d, `SELECT count(*) FROM notices WHERE status = 'unsubscribed'`) == 1
		})
		if got := notified(t, f.Vault); len(got) != 1 {
			t.Errorf("mails were sent to %v, want only the first", got)
		}
		for target, want := range map[string]int{
			"/hooks/bounce": http.StatusUnauthorized, "/hooks/bounce/wrong": http.StatusUnauthorized,
			"/hooks/bounce/" + secret: http.StatusUnprocessableEntity, "/unsubscribe/UNKNOWN": http.StatusNotFound,
		} {
			if status, _, _ := visit(t, f, http.MethodPost, target, "Status: 5.1.1"); status != want {
				t.Errorf("POST %s: status = %d, want %d", target, status, want)
			}
		}
		mails, err := filepath.Glob(filepath.Join(f.Data, "outbox", "*.eml"))
		if err != nil || len(mails) == 0 {
			t.Fatal(err)
		}
		text, err := os.ReadFile(mails[0])
		if err != nil || bytes.Contains(text, []byte("bounce+")) {
			t.Errorf("the mail contains the envelope sender, or the test cannot read it: %v", err)
		}
	})
}
