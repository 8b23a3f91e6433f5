package template

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/design"
	"github.com/certvault/certvault/internal/search"
)

// maxValue is the maximum length of a value of a column, in code points.
const maxValue = 1000

// published returns the published version of a template, ready to draw. The error is fault.NotFound if
// there is no such template, and fault.Invalid with the cause *Unusable if no certificate can be
// issued from it.
func (s *Service) published(ctx context.Context, institutionID int64, uuid string) (*open, error) {
	return s.issuable(ctx, institutionID, uuid, 0)
}

// issuable is like published, but returns the version with versionID, which may be retired. If versionID
// is 0, issuable returns the published version.
func (s *Service) issuable(ctx context.Context, institutionID int64, uuid string, versionID int64) (*open, error) {
	t, err := s.ByUUID(ctx, institutionID, uuid)
	if err == nil {
		err = t.usable()
	}
	if err != nil {
		return nil, err
	}
	if versionID == 0 {
		versionID = t.Published.ID
	}
	o, err := s.open(ctx, institutionID, versionID)
	if err == nil && o.version.templateID != t.ID {
		return nil, errNotFound
	}
	return o, err
}

// Usable returns fault.Invalid with the cause *Unusable if no certificate can be issued from a template,
// and fault.NotFound if there is no such template.
func (s *Service) Usable(ctx context.Context, institutionID int64, uuid string) error {
	t, err := s.ByUUID(ctx, institutionID, uuid)
	if err == nil {
		err = t.usable()
	}
	return err
}

func (t *Template) usable() error {
	switch {
	case t.ArchivedAt != nil:
		return errArchivedTemplate
	case t.Published == nil:
		return unusable(CodeNotPublished, "The template is not published. Publish it first.")
	}
	return nil
}

// Check returns the problems of entries for which certificates are to be issued: texts that break a rule
// or do not fit the template, duplicates of other entries, and certificates that exist already. The
// problems are in the order of the entries. The error is fault.Invalid with the cause *Unusable if no
// certificate can be issued from the template, and fault.NotFound if there is no such template.
func (s *Service) Check(ctx context.Context, inst *account.Institution, uuid string, entries []Entry) ([]RowProblem, error) {
	o, err := s.published(ctx, inst.ID, uuid)
	if err != nil {
		return nil, err
	}
	return s.check(ctx, inst, o, entries, true)
}

// CheckNotify returns the error that Issue returns if the time of the mail is not valid, or nil.
func (s *Service) CheckNotify(n cert.Notify) error {
	if p := n.Check(s.now()); p != nil {
		return batch.Problems{{Entry: batch.NoEntry, Problem: *p}}.Err()
	}
	return nil
}

// check is Check for an open version. If duplicates is false, duplicates of other entries and of existing
// certificates are no problem.
func (s *Service) check(ctx context.Context, inst *account.Institution, o *open, entries []Entry, duplicates bool) ([]RowProblem, error) {
	perEntry := make([][]RowProblem, len(entries))
	texts := make([]cert.Text, len(entries))
	today := cert.Today(s.now())
	reference := cert.WidestReference(inst.Prefix)
	group, stop := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for from := 0; from < len(entries); from += checkedAtOnce {
		group.Go(func() error {
			for i := from; i < min(from+checkedAtOnce, len(entries)); i++ {
				if err := stop.Err(); err != nil {
					return err
				}
				texts[i], perEntry[i] = o.checkEntry(i, &entries[i], inst, reference, today)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("checking a list: %w", err)
	}
	if duplicates {
		if err := s.addDuplicates(ctx, inst.ID, texts, perEntry); err != nil {
			return nil, err
		}
	}
	return slices.Concat(perEntry...), nil
}

// checkedAtOnce is the number of entries that one goroutine checks.
const checkedAtOnce = 64

// checkEntry returns the texts of an entry as they are stored, and its problems.
func (o *open) checkEntry(i int, e *Entry, inst *account.Institution, reference, today string) (cert.Text, []RowProblem) {
	var bad []RowProblem
	text := o.text(e)
	for _, f := range cert.Fields {
		valid, problem := f.Check(*f.Of(&text))
		if problem != nil {
			bad = append(bad, RowProblem{Entry: i, Problem: *problem})
		}
		*f.Of(&text) = valid
	}
	dated := !slices.ContainsFunc(bad, func(p RowProblem) bool { return p.Field == cert.FieldIssueDate })
	if problem := cert.CheckExpiry(text.IssueDate, text.ExpiresOn, today); problem != nil && dated {
		bad = append(bad, RowProblem{Entry: i, Problem: *problem})
	}
	for _, column := range slices.Sorted(maps.Keys(e.Values)) {
		if problem := checkValue(column, e.Values[column]); problem != nil {
			bad = append(bad, RowProblem{Entry: i, Problem: *problem})
		}
	}
	if text.IssueDate == "" {
		text.IssueDate = today
	}
	v := &design.Values{
		Name: text.FullName, Title: text.Title, Reference: reference, Details: text.Details, IssueDate: text.IssueDate, Institution: inst.Name, Columns: e.Values,
		Signatories: o.signers, ExpiresOn: text.ExpiresOn,
	}
	for _, p := range o.template.Check(v) {
		// For a text that breaks a rule, Field.Check returned the empty text, which may cause a second
		// problem of the same field. This second problem is not returned.
		problem := o.problem(p, v)
		if !slices.ContainsFunc(bad, func(have RowProblem) bool { return have.Field == problem.Field }) {
			bad = append(bad, RowProblem{Entry: i, Problem: problem})
		}
	}
	return text, bad
}

// text returns the texts of an entry. The default title is that of the template.
func (o *open) text(e *Entry) cert.Text {
	title := e.Title
	if strings.TrimSpace(title) == "" {
		title = o.version.Layout.Title
	}
	return cert.Text{Title: title, FullName: e.FullName, Email: e.Email, IssueDate: e.IssueDate, Details: e.Details, ExpiresOn: e.ExpiresOn}
}

func checkValue(column, value string) *cert.Problem {
	switch {
	case !account.CleanText(value) || !account.CleanText(column):
		return &cert.Problem{Field: ValueField(strings.ToValidUTF8(column, "�")), Code: cert.CodeNotText}
	case utf8.RuneCountInString(value) > maxValue:
		return &cert.Problem{Field: ValueField(column), Code: cert.CodeTooLong, Limit: maxValue}
	}
	return nil
}

// problem returns the problem of an entry that corresponds to p, a problem of a field of the template.
func (o *open) problem(p design.Problem, v *design.Values) cert.Problem {
	out := cert.Problem{Code: cert.Code(p.Code), Detail: p.Detail}
	switch p.Code {
	case design.CodeValueUnknown:
		out.Field = ValueField(p.Detail)
	case design.CodeValueMissing:
		for placeholder := range (&design.Field{Text: p.Detail}).Placeholders() {
			out.Field = fieldOf(placeholder)
		}
	default:
		out.Field = o.responsible(p, v)
		if p.Code == design.CodeNoRoom {
			out.Detail = strings.Trim(fieldName(&o.version.Layout, p.Field), "“”")
		}
	}
	return out
}

// responsible returns the field of the entry whose value causes a problem of a field of the template:
// the first field with a missing character, or the field with the longest value if no value has a missing
// character.
func (o *open) responsible(p design.Problem, v *design.Values) (found cert.Field) {
	i := slices.IndexFunc(o.version.Layout.Fields, func(f design.Field) bool { return f.ID == p.Field })
	if i < 0 {
		return ""
	}
	longest := -1
	for placeholder := range o.version.Layout.Fields[i].Placeholders() {
		field := fieldOf(placeholder)
		value := valueOf(placeholder, v)
		if field == "" {
			continue
		}
		if p.Code == design.CodeMissingCharacters && hasAny(value, p.Detail) {
			return field
		}
		if n := utf8.RuneCountInString(value); n > longest {
			found, longest = field, n
		}
	}
	return found
}

// hasAny reports whether a value has a character that the detail of a problem names, such as
// "王 (U+738B), 曉 (U+66C9)".
func hasAny(value, detail string) bool {
	for part := range strings.SplitSeq(detail, ", ") {
		if r, _ := utf8.DecodeRuneInString(part); strings.ContainsRune(value, r) {
			return true
		}
	}
	return false
}

// fieldOf returns the field of an entry that has the value of a placeholder. It returns "" for a
// placeholder whose value is not part of an entry, such as {institution}.
func fieldOf(p design.Placeholder) cert.Field {
	if p.Name == "column" {
		return ValueField(p.Column)
	}
	return map[string]cert.Field{"name": cert.FieldName, "title": cert.FieldTitle, "date": cert.FieldIssueDate, "details": cert.FieldDetails, "expiry": cert.FieldExpiresOn}[p.Name]
}

func valueOf(p design.Placeholder, v *design.Values) string {
	if p.Name == "column" {
		return v.Columns[p.Column]
	}
	return map[string]string{"name": v.Name, "title": v.Title, "date": v.IssueDate, "details": v.Details, "expiry": v.ExpiresOn}[p.Name]
}

// addDuplicates adds a problem for each entry that would become the same certificate as an earlier entry,
// and for each entry whose certificate exists already.
func (s *Service) addDuplicates(ctx context.Context, institutionID int64, texts []cert.Text, perEntry [][]RowProblem) error {
	first := map[search.Key]int{}
	var keys []search.Key
	for i := range texts {
		email, err := account.ParseEmail(texts[i].Email)
		if err != nil || texts[i].Title == "" {
			continue // the entry has other problems
		}
		key := search.Key{EmailFolded: email.Folded, Title: texts[i].Title, IssueDate: texts[i].IssueDate}
		if at, ok := first[key]; ok {
			perEntry[i] = append(perEntry[i], RowProblem{Entry: i, Problem: cert.Problem{Field: cert.FieldEmail, Code: CodeSameEntry, Limit: at}})
			continue
		}
		first[key] = i
		keys = append(keys, key)
	}
	found, err := s.search.Existing(ctx, institutionID, keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if id, ok := found[key]; ok {
			i := first[key]
			perEntry[i] = append(perEntry[i], RowProblem{Entry: i, Problem: cert.Problem{Field: cert.FieldEmail, Code: cert.CodeDuplicate, Detail: id}})
		}
	}
	return nil
}

// Prepare is like ForOne, but it ignores the values of columns that the template does not have. The error is
// fault.Invalid with the cause cert.Problems if a text breaks a rule or does not fit.
func (s *Service) Prepare(ctx context.Context, inst *account.Institution, uuid string, e Entry) (*One, error) {
	o, err := s.published(ctx, inst.ID, uuid)
	if err != nil {
		return nil, err
	}
	e.Values = o.version.Known(e.Values)
	one, problems, err := o.one(inst, e, cert.Today(s.now()))
	if err != nil {
		return nil, err
	}
	var bad cert.Problems
	for _, p := range problems {
		bad = append(bad, p.Problem)
	}
	return one, bad.Err()
}

// Issue issues certificates from a template, as a batch. It stores all entries or none. The error is
// fault.Invalid with the cause batch.Problems if an entry has a problem or if there are too many or no
// entries. It is fault.Invalid with the cause *Unusable if the template is archived or not published, and
// fault.NotFound if there is no such template or version.
func (s *Service) Issue(ctx context.Context, uuid string, i Issue) (*batch.Batch, error) {
	o, err := s.issuable(ctx, i.Institution.ID, uuid, i.VersionID)
	if err != nil {
		return nil, err
	}
	if n := len(i.Entries); n > MaxEntries {
		return nil, batch.Problems{{Entry: batch.NoEntry, Problem: cert.Problem{Code: batch.CodeTooManyEntries, Limit: MaxEntries}}}.Err()
	}
	problems, err := s.check(ctx, i.Institution, o, i.Entries, !i.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	if p := i.Notify.Check(s.now()); p != nil {
		problems = append([]RowProblem{{Entry: batch.NoEntry, Problem: *p}}, problems...)
	}
	if err := batch.Problems(problems).Err(); err != nil {
		return nil, err
	}
	draft := s.batches.NewDraft()
	defer draft.Close()
	for at := range i.Entries {
		index := at
		if i.Indexes != nil {
			index = i.Indexes[at]
		}
		if err := o.add(draft, index, &i.Entries[at], i.Institution.Name); err != nil {
			return nil, err
		}
	}
	b, err := s.batches.Submit(ctx, batch.Submission{
		Notify: i.Notify, Institution: i.Institution, Creator: i.Creator, Context: cmp.Or(i.Context, cert.FromTemplate), Name: i.Name, Draft: draft,
		Template: &batch.Template{VersionID: o.version.ID, BaseKey: o.version.baseKey},
		Then: func(ctx context.Context, tx *db.Tx, b *batch.Batch) error {
			if err := availableTx(ctx, tx, i.Institution.ID, uuid); err != nil || i.Then == nil {
				return err
			}
			return i.Then(ctx, tx, b)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("issuing certificates: %w", err)
	}
	return b, nil
}

// errArchivedTemplate is the error for issuing from an archived template.
var errArchivedTemplate = unusable(CodeArchived, "The template is archived, so no more certificates are issued from it.")

// availableTx returns errArchivedTemplate if a template is archived. It is called after the check of the
// entries, because the template may have been archived during the check. It locks the template, so that
// the template cannot be archived until tx ends.
func availableTx(ctx context.Context, tx *db.Tx, institutionID int64, uuid string) error {
	changed, err := tx.ExecContext(ctx, `UPDATE templates SET updated_at = updated_at WHERE institution_id = $1 AND uuid = $2 AND archived_at IS NULL`, institutionID, uuid)
	if err != nil {
		return fmt.Errorf("locking a template: %w", err)
	}
	if n, err := changed.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, errArchivedTemplate)
	}
	return nil
}

// add adds an entry to the draft of a batch.
func (o *open) add(draft *batch.Draft, at int, e *Entry, institution string) error {
	text := o.text(e)
	for _, f := range cert.Fields {
		if err := draft.Set(at, f, *f.Of(&text)); err != nil {
			return err
		}
	}
	stored, err := e.stored(institution)
	if err != nil {
		return err
	}
	return draft.Values(at, stored)
}

// stored returns the JSON of the type values for an entry.
func (e *Entry) stored(institution string) (json.RawMessage, error) {
	text, err := json.Marshal(values{Institution: institution, Columns: e.Values})
	if err != nil {
		return nil, fmt.Errorf("encoding the values of a certificate: %w", err)
	}
	return text, nil
}
