package template

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
)

// ByVersion returns a published or retired version of an institution, with its template. The error is
// fault.NotFound if there is no such version.
func (s *Service) ByVersion(ctx context.Context, institutionID, versionID int64) (*Template, *Version, error) {
	names, err := s.Names(ctx, institutionID, []int64{versionID})
	if err != nil {
		return nil, nil, err
	}
	name, ok := names[versionID]
	if !ok {
		return nil, nil, errNotFound
	}
	t, err := s.ByUUID(ctx, institutionID, name.ID)
	if err != nil {
		return nil, nil, err
	}
	if t.Published != nil && t.Published.ID == versionID {
		return t, t.Published, nil
	}
	found, err := versions(ctx, s.db, `institution_id = $1 AND id = $2 AND state IN ('published', 'retired')`, institutionID, versionID)
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return nil, nil, errNotFound
	}
	return t, found[0], nil
}

// Known returns those of the values whose column the version has.
func (v *Version) Known(values map[string]string) map[string]string {
	columns := map[string]string{}
	for _, c := range v.Layout.Columns() {
		if value, ok := values[c.Name]; ok {
			columns[c.Name] = value
		}
	}
	return columns
}

// Fit is like Check for a published or retired version, but duplicates are no problem.
func (s *Service) Fit(ctx context.Context, inst *account.Institution, versionID int64, entries []Entry) ([]RowProblem, error) {
	o, err := s.open(ctx, inst.ID, versionID)
	if err != nil {
		return nil, err
	}
	return s.check(ctx, inst, o, entries, false)
}

// One is the data of a single certificate that is to be issued from a version of a template.
type One struct {
	// Text has the texts of the certificate as they are stored. If the entry has no title, the title is
	// that of the template.
	Text cert.Text
	Use  cert.TemplateUse
	// BaseKey is the key of the base of the version.
	BaseKey     string
	Signatories cert.Signatories
}

// ForOne returns the data of a single certificate from the published version of a template, or the problems
// of the entry. It does not look for existing certificates. The errors are those of Check.
func (s *Service) ForOne(ctx context.Context, inst *account.Institution, uuid string, e Entry) (*One, []RowProblem, error) {
	o, err := s.published(ctx, inst.ID, uuid)
	if err != nil {
		return nil, nil, err
	}
	return o.one(inst, e, cert.Today(s.now()))
}

// one returns the data of a single certificate from a version, or the problems of the entry.
func (o *open) one(inst *account.Institution, e Entry, today string) (*One, []RowProblem, error) {
	text, problems := o.checkEntry(0, &e, inst, cert.WidestReference(inst.Prefix), today)
	if len(problems) > 0 {
		return nil, problems, nil
	}
	stored, err := e.stored(inst.Name)
	if err != nil {
		return nil, nil, err
	}
	return &One{
		Text: text, Use: cert.TemplateUse{VersionID: o.version.ID, Values: stored}, BaseKey: o.version.baseKey, Signatories: o.version.required(),
	}, nil, nil
}

// Upload returns the input of the Upload method of cert.Service for a single certificate from the
// published version. The errors are those of Issue for one entry, except that this function does not
// look for duplicates. The Upload method of cert.Service refuses them.
func (s *Service) Upload(ctx context.Context, inst *account.Institution, creator cert.Actor, uuid string, e Entry) (cert.Upload, error) {
	one, problems, err := s.ForOne(ctx, inst, uuid, e)
	if err == nil {
		err = batch.Problems(problems).Err()
	}
	if err != nil {
		return cert.Upload{}, err
	}
	text := one.Text
	return cert.Upload{
		Institution: inst, Creator: creator, Context: cert.FromTemplate,
		Title: text.Title, FullName: text.FullName, Email: text.Email, IssueDate: text.IssueDate, Details: text.Details, ExpiresOn: text.ExpiresOn,
		Template: &one.Use, BaseKey: one.BaseKey, Signatories: one.Signatories,
		Then: func(ctx context.Context, tx *db.Tx, _ *cert.Certificate) error {
			return availableTx(ctx, tx, inst.ID, uuid)
		},
	}, nil
}

// EntryPicture draws a page of the certificate of an entry as PNG, marked as a sample. versionID is the
// id of a published or retired version. If the entry does not have all required texts, the picture shows
// sample texts instead. The error is fault.Invalid with the cause batch.Problems if a text breaks a rule
// or does not fit, and fault.NotFound if there is no such version or page.
func (s *Service) EntryPicture(ctx context.Context, inst *account.Institution, versionID int64, e Entry, page, side int) ([]byte, error) {
	o, err := s.open(ctx, inst.ID, versionID)
	if err != nil {
		return nil, err
	}
	if page < 1 || page > len(o.version.Pages) {
		return nil, errNoPage
	}
	e = o.fill(e, s.now())
	text, problems := o.checkEntry(0, &e, inst, cert.WidestReference(inst.Prefix), cert.Today(s.now()))
	if err := batch.Problems(problems).Err(); err != nil {
		return nil, err
	}
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return s.drawSample(ctx, inst, o.template, o.base, &design.Values{
		Name: text.FullName, Title: text.Title, Details: text.Details, IssueDate: text.IssueDate, Institution: inst.Name, Columns: e.Values,
		Signatories: o.signers, ExpiresOn: text.ExpiresOn,
	}, page, side)
}

// typicalExpiry returns the day three years after issueDate, or after now if issueDate is not a date.
func typicalExpiry(issueDate string, now time.Time) string {
	issued, err := time.Parse(time.DateOnly, strings.TrimSpace(issueDate))
	if err != nil {
		issued = now
	}
	return issued.UTC().AddDate(3, 0, 0).Format(time.DateOnly)
}

// fill returns an entry with sample texts for the required texts that e does not have.
func (o *open) fill(e Entry, now time.Time) Entry {
	typical := design.Samples()[0].Values
	set := func(text *string, value string) {
		if *text == "" {
			*text = value
		}
	}
	set(&e.FullName, typical.Name)
	set(&e.Title, o.version.Layout.Title)
	set(&e.Title, typical.Title)
	set(&e.Email, "sample@example.org")
	e.Values = maps.Clone(e.Values)
	for _, c := range o.version.Layout.Columns() {
		if c.Required && e.Values[c.Name] == "" {
			if e.Values == nil {
				e.Values = map[string]string{}
			}
			e.Values[c.Name] = c.Name
		}
	}
	for i := range o.version.Layout.Fields {
		f := &o.version.Layout.Fields[i]
		for p := range f.Placeholders() {
			if f.Required && p.Name == "details" {
				set(&e.Details, typical.Details)
			}
			if f.Required && p.Name == "expiry" {
				set(&e.ExpiresOn, typicalExpiry(e.IssueDate, now))
			}
		}
	}
	return e
}
