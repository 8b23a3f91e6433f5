//go:build e2e

package e2e

import (
	"encoding/csv"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/certvault/certvault/test/vault"
)

// awaitLetterText waits for a mail that is addressed to address and contains the text subject in its header
// Subject. It returns the decoded text of the mail.
func awaitLetterText(t *testing.T, v *vault.Vault, address, subject string) (text string) {
	t.Helper()
	eventually(t, approvalTime, "the outbox has a mail to "+address, func() bool {
		files, err := filepath.Glob(filepath.Join(v.Data, "outbox", "*.eml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := mail.ReadMessage(f)
			if err != nil {
				t.Fatal(err)
			}
			decoded, err := (&mime.WordDecoder{}).DecodeHeader(m.Header.Get("Subject"))
			if err == nil && strings.Contains(m.Header.Get("To"), address) && strings.Contains(decoded, subject) {
				text = plainText(t, m)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return text != ""
	})
	return text
}

func plainText(t *testing.T, m *mail.Message) string {
	t.Helper()
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	part, err := multipart.NewReader(m.Body, params["boundary"]).NextRawPart()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(part))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var invitationLink = regexp.MustCompile(`https://\S+/invitation/\S+`)

// setUp sets up a vault with the link that the vault printed, and returns the tab of the first
// owner.
func setUp(t *testing.T, v *vault.Vault) *tab {
	t.Helper()
	var link []string
	eventually(t, startTime, "the vault has printed the set-up link", func() bool {
		link = setupLink.FindStringSubmatch(v.Stdout())
		return link != nil
	})
	owner := browse(t, v)
	owner.open(link[0])
	owner.see("Set up your vault", v.URL, "cannot be changed later", "This is a test vault")
	owner.fill("name", "Northwind University")
	owner.fill("prefix", "nwu")
	owner.fill("owner_name", "Ada Owner")
	owner.fill("owner_email", "ada@nwu.example")
	owner.fill("owner_password", "short pw but long enough")
	owner.press("Mail is not sent: no mail server is configured.")
	owner.press("Write test mail")
	owner.see("The test mail to ada@nwu.example was written to the outbox folder. It was not sent.")
	if text := awaitLetterText(t, v, "ada@nwu.example", "can send mail"); !strings.Contains(text, v.URL) {
		t.Errorf("the test mail does not contain the URL of the vault: %s", text)
	}
	// The form still contains the password after the test mail, and Enter in a field submits the form.
	evaluate[bool](owner, `document.getElementById("test_vault").click() ?? true`)
	owner.enter("prefix")
	owner.see("Your vault is ready", "Northwind University", "Ada Owner")
	owner.open(link[0])
	owner.see("Page not found")
	return owner
}

// TestPeople sets up a vault with the printed link and invites a member by mail. It checks the
// permissions of the member, that the last owner cannot leave, and the entries in the audit log.
func TestPeople(t *testing.T) {
	t.Parallel()
	eachInFull(t, func(t *testing.T, database string) {
		v := serve(t, vault.Options{Data: warm(t), Database: database, Args: unlimited(nil)})
		owner := setUp(t, v)

		owner.open("/panel/northwind-university/members")
		owner.press("Invite member")
		owner.fill("email", "Bo@nwu.example")
		owner.press("Send invitation")
		owner.see("The invitation was created, but not sent", "Bo@nwu.example", "Pending")

		link := invitationLink.FindString(awaitLetterText(t, v, "bo@nwu.example", "Northwind University"))
		guest := browse(t, v)
		guest.open(link)
		guest.see("Ada Owner invites Bo@nwu.example", "Issuer", "Create your account")
		guest.fill("name", "=Bo+Member()")
		guest.fill("password", "another long sentence")
		guest.press("Create account and accept")
		guest.see("Welcome. You are now a member.", "=Bo+Member()")
		for _, hidden := range []string{"Members", "Audit log", "API tokens"} {
			if evaluate[bool](guest, `[...document.querySelectorAll("nav a")].some((a) => a.innerText.includes("`+hidden+`"))`) {
				t.Errorf("the menu has the link %q for an issuer, want no such link", hidden)
			}
		}
		for path, text := range map[string]string{
			"/panel/northwind-university/members": "You do not have permission", "/panel/northwind-university/audit": "You do not have permission",
			"/panel/another-university/members": "Page not found", "/operator": "Page not found",
		} {
			guest.open(path)
			guest.see(text)
		}
		guest.open(link)
		guest.see("This invitation is no longer valid")

		owner.open("/panel/northwind-university/leave")
		owner.press("Leave")
		owner.see("An institution must keep an owner")
		owner.open("/panel/northwind-university/members")
		owner.press("Change")
		owner.press("Remove…")
		owner.press("Remove member")
		owner.see("An institution must keep an owner")

		owner.open("/operator")
		owner.see("Installation", "2 checks need attention", "Queue", "schema")
		owner.open("/operator/institutions")
		owner.see("Northwind University", "NWU")
		owner.open("/operator/institutions/northwind-university/state")
		owner.press("Disable")
		owner.see("The institution is disabled.")
		owner.open("/panel/northwind-university/members")
		owner.see("is disabled. Ask the operator of this vault to enable it.")
		owner.open("/operator/institutions/northwind-university/state")
		owner.press("Enable")
		owner.see("The institution is enabled.")

		owner.open("/panel/northwind-university/audit")
		owner.see("Ada Owner (user) invited a person: Bo@nwu.example", "=Bo+Member() (user) accepted an invitation: Bo@nwu.example",
			"Ada Owner (user) added a member: Ada Owner")
		rows := owner.exported(t, "CSV")
		safe := 0
		for _, row := range rows[1:] {
			for _, cell := range row {
				if cell != "" && strings.ContainsRune("=+-@", rune(cell[0])) {
					t.Errorf("a spreadsheet program would execute %q as a formula", cell)
				}
				if cell == "'=Bo+Member()" {
					safe++
				}
			}
		}
		if safe == 0 {
			t.Errorf("the export does not contain the name of the member after an apostrophe: %v", rows)
		}

		// A removed member loses access at the next request.
		owner.open("/panel/northwind-university/members")
		owner.press("=Bo+Member()")
		owner.press("Remove…")
		owner.press("Remove member")
		owner.see("The member was removed")
		guest.open("/panel/northwind-university")
		guest.see("Page not found")
		visitor := browse(t, v)
		visitor.open("/panel/northwind-university/members")
		visitor.at("/sign-in")
	})
}

// exported clicks an export button and returns the rows of the exported file.
func (b *tab) exported(t *testing.T, button string) [][]string {
	t.Helper()
	dir := t.TempDir()
	if _, err := chromedp.CallBrowser(b.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID, DownloadPath: dir,
	}); err != nil {
		t.Fatal(err)
	}
	b.press(button)
	var file string
	var text []byte
	// The file is empty or missing until the download is complete.
	eventually(t, seeTime, "the file is downloaded", func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*.csv"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 1 {
			return false
		}
		file = files[0]
		if text, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		return len(text) > 0
	})
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(text), "\ufeff"))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("the exported file %s has %d rows, %v; want at least 2", file, len(rows), err)
	}
	return rows
}
