package vault

import (
	"context"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/seal"
)

// sheet returns the contents of the verification sheet of a certificate, in the language of the
// recipient and in English. cert.Config.Sheet calls it.
func (s *Services) sheet(ctx context.Context, d Deps, c *cert.Certificate) (*seal.Sheet, error) {
	profile, err := s.Accounts.PublicProfile(ctx, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	sheet := &seal.Sheet{Title: c.Title, Name: c.FullName}
	if profile.Logo != "" {
		if sheet.Logo, err = s.Accounts.Logo(ctx, profile.Slug, profile.Logo); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
	}
	own, err := s.languageOf(ctx, d, c)
	if err != nil {
		return nil, err
	}
	english := s.Languages.Languages()[0]
	for _, l := range []*locale.Language{own, english} {
		if len(sheet.Texts) > 0 && l == own {
			continue
		}
		texts, err := sheetTexts(l, d, c.IssueDate)
		if err != nil {
			return nil, err
		}
		sheet.Texts = append(sheet.Texts, *texts)
	}
	return sheet, nil
}

// languageOf returns the language that the recipient chose. If the recipient chose none, it returns the
// institution's language for mail, or English.
func (s *Services) languageOf(ctx context.Context, d Deps, c *cert.Certificate) (*locale.Language, error) {
	settings, err := account.ReadSettings(ctx, d.DB, c.InstitutionID)
	if err != nil {
		return nil, err
	}
	chosen, err := account.LanguageOf(ctx, d.DB, c.Email)
	if err != nil {
		return nil, err
	}
	return s.Languages.FirstOf(chosen, settings.MailLanguage), nil
}

// sheetTexts returns the texts of a sheet in a language. issueDate has the form YYYY-MM-DD, or is "".
func sheetTexts(l *locale.Language, d Deps, issueDate string) (*seal.SheetTexts, error) {
	_, address, _ := strings.Cut(strings.TrimSuffix(d.Links.To("/"), "/"), "://")
	t := &seal.SheetTexts{Language: l.Tag, RightToLeft: l.Direction == "rtl"}
	for _, m := range []struct {
		to   *string
		key  string
		args []any
	}{
		{&t.Heading, "heading", nil}, {&t.Page, "page", nil}, {&t.Cover, "cover", nil}, {&t.NameLabel, "name", nil}, {&t.IssuerLabel, "issuer", nil},
		{&t.DateLabel, "date", nil}, {&t.IDLabel, "id", nil}, {&t.DigestLabel, "digest", nil}, {&t.Steps, "steps", nil},
		{&t.Phone, "phone", []any{"address", address}}, {&t.Web, "web", []any{"address", address}}, {&t.Offline, "offline", []any{"help", address + "/signatures"}},
	} {
		var err error
		if *m.to, err = l.Text("sheet."+m.key, m.args...); err != nil {
			return nil, err
		}
	}
	if day, err := time.Parse(time.DateOnly, issueDate); err == nil {
		t.Date = l.Date(day)
	}
	return t, nil
}
