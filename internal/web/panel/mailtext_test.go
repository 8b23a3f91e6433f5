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
		says(t, "first", o.get("admin", page), http.StatusOK, "Sender's name", "Your certificate from Northern & Western University", "Send a test mail to me", "English default")
		says(t, "head", o.redirects(t, "admin", o.post("admin", page, url.Values{"mail_sender": {"Registrar"}, "reply_to": {"registry@example.org"}}), page),
			http.StatusOK, "The settings were kept.", "Registrar , at the vault's address", "registry@example.org")
		says(t, "bad head", o.post("admin", page, url.Values{"mail_sender": {"a@b"}, "reply_to": {"x"}}), http.StatusUnprocessableEntity, "without @, < and >")
		words := page + "/words"
		w := o.post("admin", words, url.Values{"language": {"en"}, "paragraph": {"Dear {name}, <b>well done</b>."}, "look": {"1"}})
		says(t, "look", w, http.StatusOK, "which are not kept yet", "Dear Admin Person, <b>well done</b>.")
		if all, err := o.panel.Accounts.MailTexts(t.Context(), o.mine.ID); err != nil || len(all) != 0 {
			t.Errorf("a look keeps %v, %v", all, err)
		}
		says(t, "unknown place", o.post("admin", words, url.Values{"language": {"en"}, "paragraph": {"Dear {who}"}}), http.StatusUnprocessableEntity, "There is no {who} to put in.")
		w = o.redirects(t, "admin", o.post("admin", words, url.Values{"language": {"ar"}, "closing": {"مكتب التسجيل"}}), page+"?language=ar")
		says(t, "kept", w, http.StatusOK, "The words were kept.", "مكتب التسجيل")
		if all, err := o.panel.Accounts.MailTexts(t.Context(), o.mine.ID); err != nil || all["ar"] != (account.MailText{Closing: "مكتب التسجيل"}) {
			t.Errorf("%v, %v", all, err)
		}
		w = o.redirects(t, "admin", o.post("admin", page+"/test", url.Values{"language": {"ar"}}), page+"?language=ar")
		says(t, "sample", w, http.StatusOK, "A test mail is on its way to you.")
		var message string
		if err := o.DB.QueryRowContext(t.Context(), `SELECT message FROM mails ORDER BY id DESC LIMIT 1`).Scan(&message); err != nil ||
			!strings.Contains(message, "مكتب التسجيل") || !strings.Contains(message, `"sender":"Registrar"`) || !strings.Contains(message, `"subject":"Test: `) {
			t.Errorf("the test mail is %s, %v", message, err)
		}
		if !o.recorded(audit.WordsChanged) || !o.recorded(audit.MailTried) {
			t.Error("the changes are not recorded")
		}
		for range 29 {
			o.post("admin", page+"/test", url.Values{"language": {"en"}})
		}
		says(t, "too many", o.post("admin", page+"/test", url.Values{"language": {"en"}}), http.StatusTooManyRequests, "30 times a day")
	})
}
