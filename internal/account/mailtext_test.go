package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestMailTexts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now, cheap)
		one, err := s.CreateInstitution(ctx, institution("One", "ONE"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.CreateInstitution(ctx, institution("Other", "OTH"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SetMailSender(ctx, one.ID, account.MailSender{Sender: " Registrar, One ", ReplyTo: " Registry@example.org "}); err != nil {
			t.Fatal(err)
		}
		sender, err := s.MailSender(ctx, one.ID)
		if err != nil || sender != (account.MailSender{Sender: "Registrar, One", ReplyTo: "Registry@example.org"}) {
			t.Errorf("MailSender = %+v, error %v, want the trimmed sender", sender, err)
		}
		for _, bad := range []account.MailSender{
			{Sender: "Bank <x"}, {Sender: "security@bank.example"}, {Sender: "a\r\nBcc: x"}, {Sender: "a\u202eb"}, {Sender: strings.Repeat("ä", 101)},
			{ReplyTo: "nobody"}, {ReplyTo: "a@example.org\r\nBcc: b@example.org"}, {ReplyTo: "a@example.org, b@example.org"},
		} {
			if err := s.SetMailSender(ctx, one.ID, bad); !fault.Is(err, fault.Invalid) {
				t.Errorf("setting the sender %+v: error = %v, want fault.Invalid", bad, err)
			}
		}
		if name := sender.DisplayName("One"); name != "Registrar, One" {
			t.Errorf("DisplayName = %q, want Registrar, One", name)
		}
		for name, want := range map[string]string{
			"Universität Köln": "Universität Köln", "جامعة": "جامعة", "Bank <security@bank.example>": "Bank security bank.example",
			"a\u202eb\r\nBcc: x": "a b Bcc: x", strings.Repeat("ä", 200): strings.Repeat("ä", 100),
		} {
			if got := (account.MailSender{}).DisplayName(name); got != want {
				t.Errorf("DisplayName(%q) = %q, want %q", name, got, want)
			}
		}
		texts := account.MailText{Paragraph: "Dear {name},\r\nyour {title} is in the post too.", Closing: "Registrar's Office"}
		if err := s.SetMailText(ctx, one.ID, "en", texts); err != nil {
			t.Fatal(err)
		}
		texts.Paragraph = "Dear {name},\nyour {title} is in the post too."
		all, err := s.MailTexts(ctx, one.ID)
		if err != nil || len(all) != 1 || all["en"] != texts {
			t.Errorf("the texts are %+v, error %v, want only the texts in en with LF", all, err)
		}
		for want, bad := range map[string]account.MailText{
			"{first_name} is not a placeholder. The placeholders are {name}, {title}, {institution}.": {Paragraph: "Dear {first_name}"},
			"{} is not a placeholder": {Closing: "{}"}, "at most 600": {Paragraph: strings.Repeat("ä", 601)}, "at most 200": {Closing: strings.Repeat("ä", 201)},
			"on 12 lines": {Closing: strings.Repeat("a\n", 12) + "a"}, "at most 4 placeholders": {Paragraph: strings.Repeat("{name}", 5)},
			"without invisible": {Paragraph: "a\u202eb"}, "must be plain": {Closing: "a\x00b"},
		} {
			if err := s.SetMailText(ctx, one.ID, "en", bad); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("setting an invalid text: error = %v, want fault.Invalid with %q", err, want)
			}
		}
		if err := s.SetMailText(ctx, one.ID, "tlh", texts); !fault.Is(err, fault.Invalid) {
			t.Errorf("setting a text in an unsupported language: error = %v, want fault.Invalid", err)
		}
		if err := s.SetMailText(ctx, one.ID, "ar", account.MailText{Closing: "مكتب التسجيل"}); err != nil {
			t.Fatal(err)
		}
		if err := s.SetMailText(ctx, one.ID, "en", account.MailText{}); err != nil {
			t.Fatal(err)
		}
		if all, err = s.MailTexts(ctx, one.ID); err != nil || len(all) != 1 || all["ar"].Closing == "" {
			t.Errorf("the texts are %+v, error %v, want only the texts in ar", all, err)
		}
		if all, err = s.MailTexts(ctx, other.ID); err != nil || len(all) != 0 {
			t.Errorf("the texts of the other institution are %+v, want none; error %v", all, err)
		}
		// The change can be recorded in the audit log even if the texts have the maximum length and
		// characters that are long in JSON.
		long := account.MailText{Paragraph: strings.Repeat("<", account.MaxParagraph), Closing: strings.Repeat("𐎀", account.MaxClosing)}
		if err := s.SetMailText(ctx, one.ID, "en", long); err != nil {
			t.Error(err)
		}
		list, _, err := audit.New(d).List(ctx, one.ID, audit.Filter{Action: string(audit.MailTextChanged)}, "", 10)
		if err != nil || len(list) != 4 || list[0].Detail["language"] != "en" {
			t.Errorf("the recorded changes are %+v, error %v, want four, the newest in en", list, err)
		}
	})
}

func TestFill(t *testing.T) {
	t.Parallel()
	w := account.MailText{Paragraph: "{name}: {title} {other}", Closing: "{institution}"}.Fill(func(place string) string { return "<" + place + " {name}>" })
	// Fill does not replace placeholders in the values.
	if w.Paragraph != "<name {name}>: <title {name}> {other}" || w.Closing != "<institution {name}>" {
		t.Errorf("Fill = %+v, want each known placeholder replaced once", w)
	}
}
