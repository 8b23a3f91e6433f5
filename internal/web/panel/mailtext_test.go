package panel

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
)

func TestMailSettings(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("settings/mail")
		checkPage(t, "the initial settings", o.get("admin", page), http.StatusOK, "Sender's name", "Your certificate from Northern & Western University", "Send test mail", "English default")
		for kind, want := range map[string]struct{ heading, subject, text string }{
			"replacement": {"Your certificate was replaced", "Your certificate was replaced: Bachelor", "Your share links, and links in earlier mail, now show the new one."},
			"revocation":  {"Your certificate was revoked", "Your certificate was revoked: Bachelor", "The certificate has a wrong grade."},
			"expiring":    {"Your certificate expires soon", "Your certificate expires on", "Bachelor of Science in Physics"},
			"unknown":     {"Your certificate is ready", "Your certificate from Northern & Western University", "Bachelor of Science in Physics"},
		} {
			checkPage(t, "the mail "+kind, o.get("admin", page+"?mail="+kind), http.StatusOK, want.subject, want.text)
			if frame := o.get("admin", page+"/preview?language=en&mail="+kind); !strings.Contains(frame.Body.String(), "<title>"+want.heading+"</title>") {
				t.Errorf("the preview of the mail %s does not have the title %q", kind, want.heading)
			}
		}
		checkPage(t, "a changed sender", o.followRedirect(t, "admin", o.post("admin", page, url.Values{"mail_sender": {"Registrar"}, "reply_to": {"registry@example.org"}}), page),
			http.StatusOK, "The settings were saved.", "Registrar , at the address of the vault", "registry@example.org")
		checkPage(t, "an invalid sender", o.post("admin", page, url.Values{"mail_sender": {"a@b"}, "reply_to": {"x"}}), http.StatusUnprocessableEntity, "without @, < and >")
		texts := page + "/words"
		w := o.post("admin", texts, url.Values{"language": {"en"}, "paragraph": {"Dear {name}, <b>well done</b>."}, "look": {"1"}})
		checkPage(t, "a preview", w, http.StatusOK, "This preview contains changes that are not saved.", "Dear Admin Person, <b>well done</b>.")
		if got := w.Body.String(); !strings.Contains(got, `/settings/mail/preview?closing=&amp;draft=1&amp;language=en&amp;paragraph=Dear`) || !strings.Contains(got, `data-preview-unsaved>`) {
			t.Error("the page lacks the frame with the unsaved text")
		}
		if all, err := o.panel.Accounts.MailTexts(t.Context(), o.inst.ID); err != nil || len(all) != 0 {
			t.Errorf("after the preview: saved texts = %v, error %v, want none", all, err)
		}
		checkPage(t, "an unknown placeholder", o.post("admin", texts, url.Values{"language": {"en"}, "paragraph": {"Dear {who}"}}), http.StatusUnprocessableEntity, "{who} is not a placeholder.")
		w = o.followRedirect(t, "admin", o.post("admin", texts, url.Values{"language": {"ar"}, "closing": {"مكتب التسجيل"}}), page+"?language=ar")
		checkPage(t, "saved texts", w, http.StatusOK, "The texts were saved.", "مكتب التسجيل")
		if all, err := o.panel.Accounts.MailTexts(t.Context(), o.inst.ID); err != nil || all["ar"] != (account.MailText{Closing: "مكتب التسجيل"}) {
			t.Errorf("saved texts = %v, error %v, want the submitted closing in Arabic", all, err)
		}
		w = o.followRedirect(t, "admin", o.post("admin", page+"/test", url.Values{"language": {"ar"}}), page+"?language=ar")
		checkPage(t, "a test mail", w, http.StatusOK, "The test mail is being sent to you.")
		var message string
		if err := o.DB.QueryRowContext(t.Context(), `SELECT message FROM mails ORDER BY id DESC LIMIT 1`).Scan(&message); err != nil ||
			!strings.Contains(message, "مكتب التسجيل") || !strings.Contains(message, `"sender":"Registrar"`) || !strings.Contains(message, `"subject":"Test: `) {
			t.Errorf("test mail = %s, error %v, want the saved closing, the sender Registrar and a subject that begins with Test", message, err)
		}
		if !o.hasAuditEntry(audit.MailTextChanged) || !o.hasAuditEntry(audit.MailTested) {
			t.Error("the audit log lacks the change of the texts or the test mail")
		}
		for range 29 {
			o.post("admin", page+"/test", url.Values{"language": {"en"}})
		}
		checkPage(t, "too many test mails", o.post("admin", page+"/test", url.Values{"language": {"en"}}), http.StatusTooManyRequests, "30 times a day")
	})
}

// TestMailPreview checks the page in the frame of the preview. The page contains the saved or the typed
// text with escaped HTML, and cannot load or run anything.
func TestMailPreview(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		page := o.pathOf("settings/mail")
		if w := o.get("admin", page); !strings.HasSuffix(w.Header().Get("Content-Security-Policy"), "; frame-src 'self'") {
			t.Errorf("Content-Security-Policy = %q, want frame-src 'self' at the end", w.Header().Get("Content-Security-Policy"))
		}
		if w := o.get("admin", o.pathOf("settings")); strings.Contains(w.Header().Get("Content-Security-Policy"), "frame-src") {
			t.Error("the Content-Security-Policy of another page contains frame-src")
		}
		o.post("admin", page+"/words", url.Values{"language": {"ar"}, "paragraph": {"النص"}})
		for query, wants := range map[string][]string{
			"?language=ar": {`<html lang="ar" dir="rtl">`, "النص", `src="data:image/png;base64,`, `<base target="_blank">`},
			"?" + url.Values{"language": {"de"}, "draft": {"1"}, "paragraph": {"Dear {name} <script>alert(1)</script> {unknown}"}}.Encode(): {
				`<html lang="de" dir="ltr">`, "Dear Admin Person &lt;script&gt;", "{unknown}", "Zertifikat ansehen",
			},
			"?language=de&draft=1&paragraph=" + strings.Repeat("x", 5000): {strings.Repeat("x", account.MaxParagraph) + "</p>"},
		} {
			w := o.get("admin", page+"/preview"+query)
			if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != previewPolicy {
				t.Errorf("%.40s: status = %d, policy %q, want 200 and previewPolicy", query, w.Code, w.Header().Get("Content-Security-Policy"))
			}
			for _, want := range wants {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%.40s: the preview does not contain %.60q", query, want)
				}
			}
			for _, not := range []string{"<script", "cid:", "<!--", `src="http`} {
				if strings.Contains(w.Body.String(), not) {
					t.Errorf("%.40s: the preview contains %q", query, not)
				}
			}
		}
		if w := o.get("issuer", page+"/preview"); w.Code != http.StatusForbidden {
			t.Errorf("an issuer opens the preview: status = %d, want 403", w.Code)
		}
	})
}

// TestNoMailServer checks pages of a vault without a mail server. They do not state that mail was sent.
func TestNoMailServer(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		o := newPanelTest(t, d)
		const banner = "Mail is not sent: no mail server is configured."
		if strings.Contains(o.get("owner", o.pathOf("certificates")).Body.String(), banner) {
			t.Error("a vault with a mail server shows the banner")
		}
		o.panel.Outbox = "/var/lib/certvault/outbox"
		checkPage(t, "a page of an owner", o.get("owner", o.pathOf("certificates")), http.StatusOK, banner, "--smtp")
		if strings.Contains(o.get("issuer", o.pathOf("certificates")).Body.String(), banner) {
			t.Error("an issuer sees the banner, want only owners")
		}
		page := o.pathOf("settings/mail")
		w := o.followRedirect(t, "admin", o.post("admin", page+"/test", url.Values{"language": {"en"}}), page+"?language=en")
		checkPage(t, "a test mail", w, http.StatusOK, "The test mail was not sent: no mail server is configured.")
		if !strings.Contains(w.Body.String(), `<p class="note wait" role="status">The test mail was not sent`) {
			t.Error("the notice about the test mail is not a warning")
		}
		c := o.upload(o.inst, "Ada Obi", "diploma.pdf")
		o.processAll()
		o.Exec(`UPDATE notices SET status = 'unsent'`)
		w = o.get("owner", o.pathOf("certificates/"+c.UUID))
		checkPage(t, "a certificate", w, http.StatusOK, "Not sent: no mail server", "The mail to ada.obi@example.org was not sent.")
		if strings.Contains(visibleText(t, w), "About the certificate") {
			t.Error("the activity states that the mail was sent")
		}
		checkPage(t, "the form for the address", o.get("issuer", o.pathOf("certificates/"+c.UUID+"/email")), http.StatusOK, "No mail is sent, because no mail server is configured.")
		w = o.followRedirect(t, "owner", o.post("owner", o.pathOf("certificates/"+c.UUID+"/resend"), nil), o.pathOf("certificates/"+c.UUID))
		checkPage(t, "a mail that is sent again", w, http.StatusOK, "The mail was not sent: no mail server is configured.")
		if strings.Contains(w.Body.String(), "on its way again") {
			t.Error("the page states that the mail is on its way")
		}
	})
}
