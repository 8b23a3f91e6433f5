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
		checkPage(t, "the initial settings", o.get("admin", page), http.StatusOK, "Sender's name", "Your certificate from Northern & Western University", "Send a test mail to me", "English default")
		checkPage(t, "a changed sender", o.followRedirect(t, "admin", o.post("admin", page, url.Values{"mail_sender": {"Registrar"}, "reply_to": {"registry@example.org"}}), page),
			http.StatusOK, "The settings were saved.", "Registrar , at the vault's address", "registry@example.org")
		checkPage(t, "an invalid sender", o.post("admin", page, url.Values{"mail_sender": {"a@b"}, "reply_to": {"x"}}), http.StatusUnprocessableEntity, "without @, < and >")
		texts := page + "/words"
		w := o.post("admin", texts, url.Values{"language": {"en"}, "paragraph": {"Dear {name}, <b>well done</b>."}, "look": {"1"}})
		checkPage(t, "a preview", w, http.StatusOK, "which are not kept yet", "Dear Admin Person, <b>well done</b>.")
		if all, err := o.panel.Accounts.MailTexts(t.Context(), o.inst.ID); err != nil || len(all) != 0 {
			t.Errorf("after the preview: saved texts = %v, error %v, want none", all, err)
		}
		checkPage(t, "an unknown placeholder", o.post("admin", texts, url.Values{"language": {"en"}, "paragraph": {"Dear {who}"}}), http.StatusUnprocessableEntity, "There is no {who} to put in.")
		w = o.followRedirect(t, "admin", o.post("admin", texts, url.Values{"language": {"ar"}, "closing": {"مكتب التسجيل"}}), page+"?language=ar")
		checkPage(t, "saved texts", w, http.StatusOK, "The texts were saved.", "مكتب التسجيل")
		if all, err := o.panel.Accounts.MailTexts(t.Context(), o.inst.ID); err != nil || all["ar"] != (account.MailText{Closing: "مكتب التسجيل"}) {
			t.Errorf("saved texts = %v, error %v, want the submitted closing line in Arabic", all, err)
		}
		w = o.followRedirect(t, "admin", o.post("admin", page+"/test", url.Values{"language": {"ar"}}), page+"?language=ar")
		checkPage(t, "a test mail", w, http.StatusOK, "A test mail is on its way to you.")
		var message string
		if err := o.DB.QueryRowContext(t.Context(), `SELECT message FROM mails ORDER BY id DESC LIMIT 1`).Scan(&message); err != nil ||
			!strings.Contains(message, "مكتب التسجيل") || !strings.Contains(message, `"sender":"Registrar"`) || !strings.Contains(message, `"subject":"Test: `) {
			t.Errorf("test mail = %s, error %v, want the saved closing line, the sender Registrar and a subject that begins with Test", message, err)
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
