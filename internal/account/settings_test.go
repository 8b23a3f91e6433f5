package account_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
)

func TestChangeStoresAllOrNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := account.New(d, time.Now)
		one, err := s.CreateInstitution(ctx, institution("One", "ONE"))
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.CreateInstitution(ctx, institution("Other", "OTH"))
		if err != nil {
			t.Fatal(err)
		}
		logo, err := account.DrawLogo(picture(t, 10, 10, false))
		if err != nil {
			t.Fatal(err)
		}
		change := func(c *account.Changes) error { //nolint:unparam // Change requires the error
			c.Name, c.Colour, c.MailLanguage, c.Logo = "Another", " #1A237E ", "de", logo
			c.Public = account.Public{AllowImage: true, Contact: " r@example.org "}
			c.MailSender = account.MailSender{Sender: "Registrar"}
			c.Retention = account.Retention{Failed: 90}
			c.Policy = account.Policy{Placement: "exact", Page: 2, Box: &[4]float64{0, 0, 0.5, 0.25}, RefuseActive: true}
			c.MailTexts["de"] = account.MailText{Closing: "Ihr Büro"}
			c.MailTexts["fr"] = account.MailText{Closing: "Votre bureau"}
			return nil
		}
		recorded := func() map[audit.Action]int {
			list, _, err := audit.New(d).List(ctx, one.ID, audit.Filter{}, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			n := map[audit.Action]int{}
			for _, e := range list {
				n[e.Action]++
			}
			return n
		}
		state := func(id int64) (*account.Settings, map[string]account.MailText, string) {
			v, err := account.ReadSettings(ctx, d, id)
			if err != nil {
				t.Fatal(err)
			}
			texts, err := s.MailTexts(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			profile, err := s.PublicProfile(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			return v, texts, profile.Logo
		}
		was, _, _ := state(one.ID)
		log := recorded()
		for field, invalidate := range map[string]func(c *account.Changes){
			"name":          func(c *account.Changes) { c.Name = " " },
			"colour":        func(c *account.Changes) { c.Colour = "#ffcc00" },
			"mail_language": func(c *account.Changes) { c.MailLanguage = "xx" },
			"hide_name":     func(c *account.Changes) { c.HideName = true },
			"linkedin":      func(c *account.Changes) { c.LinkedIn = "northwind" },
			"reply_to":      func(c *account.Changes) { c.ReplyTo = "nobody" },
			"keep_mail":     func(c *account.Changes) { c.Mail = 3 },
			"closing":       func(c *account.Changes) { c.MailTexts["de"] = account.MailText{Closing: "{}"} },
			"language":      func(c *account.Changes) { c.MailTexts["tlh"] = account.MailText{Closing: "Qapla'"} },
		} {
			_, err := s.Change(ctx, one.ID, func(c *account.Changes) error {
				defer invalidate(c)
				return change(c)
			})
			if !fault.Is(err, fault.Invalid) || !hasField(err, field) {
				t.Errorf("an invalid %s: error = %v, want fault.Invalid with this field", field, err)
			}
			if now, texts, picture := state(one.ID); !reflect.DeepEqual(now, was) || len(texts) != 0 || picture != "" {
				t.Errorf("after a change with an invalid %s: settings %+v, mail texts %v, logo %q; want settings %+v, no mail texts and no logo", field, now, texts, picture, was)
			}
			if now := recorded(); !reflect.DeepEqual(now, log) {
				t.Errorf("after a change with an invalid %s: the numbers of log entries are %v, want %v as before", field, now, log)
			}
		}
		done, err := s.Change(ctx, one.ID, change)
		if err != nil {
			t.Fatal(err)
		}
		now, texts, picture := state(one.ID)
		if !reflect.DeepEqual(*now, done.Settings) || now.Colour != "#1a237e" || now.Contact != "r@example.org" || now.Box == nil || len(texts) != 2 || len(picture) != 64 {
			t.Errorf("stored %+v, %v, %q; returned %+v, want the same settings in their stored form, two texts and a logo", now, texts, picture, done)
		}
		if n := recorded(); n[audit.InstitutionChanged] != 5 || n[audit.MailTextChanged] != 2 || n[audit.LogoChanged] != 1 {
			t.Errorf("the log has %v, want 5 changes of settings, 2 of texts and 1 of the logo", n)
		}
		// The second call with the same change stores and records only the logo.
		if _, err := s.Change(ctx, one.ID, change); err != nil {
			t.Fatal(err)
		}
		if n := recorded(); n[audit.InstitutionChanged] != 5 || n[audit.MailTextChanged] != 2 || n[audit.LogoChanged] != 2 {
			t.Errorf("the log after the same change has %v, want 5 changes of settings, 2 of texts and 2 of the logo", n)
		}
		if v, texts, picture := state(other.ID); v.Name != "Other" || v.Colour != "" || len(texts) != 0 || picture != "" {
			t.Errorf("the other institution has %+v, %v, %q, want no changes", v, texts, picture)
		}
		if _, err := s.Change(ctx, 999, change); !fault.Is(err, fault.NotFound) {
			t.Errorf("changing an unknown institution: error = %v, want fault.NotFound", err)
		}
	})
}

func hasField(err error, name string) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && slices.ContainsFunc(e.Fields, func(f fault.Field) bool { return f.Name == name })
}
