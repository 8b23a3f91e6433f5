package batch

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/quota"
)

// entryStatus is the stored status of an entry.
type entryStatus string

const (
	// queued entries wait for their certificates to be created.
	queued entryStatus = "queued"
	// made entries have become certificates.
	made entryStatus = "made"
	// rejected entries never become certificates.
	rejected entryStatus = "rejected"
)

// Submission is a batch that is submitted: a bulk upload of files, or a list for a template.
type Submission struct {
	Institution *account.Institution
	Creator     cert.Actor
	Context     cert.TriggerContext
	// Name is the name of the batch. If it is empty, the name contains the time of the submission.
	Name  string
	Draft *Draft
	// Template is the template of the certificates. It is nil for a bulk upload of files.
	Template *Template
	// Notify is the choice of when the recipients get mail.
	Notify cert.Notify
	// Then, which may be nil, runs in the transaction that accepts the batch.
	Then func(ctx context.Context, tx *db.Tx, b *Batch) error
}

// Template is the version of a template from which the certificates of a batch are made.
type Template struct {
	VersionID int64
	// BaseKey is the key of the base of the version.
	BaseKey string
}

// TemplateName is a version of a template as clients see it.
type TemplateName struct {
	ID      string
	Name    string
	Version int
}

// Submit accepts a whole batch or nothing. The error is fault.Invalid with all problems if the draft
// has a problem or no entries, if a file does not exist, or if u.Notify is not valid. The error is
// fault.Forbidden if a limit of the institution would be exceeded. Duplicates are rejected later, without
// an effect on other entries.
func (s *Service) Submit(ctx context.Context, u Submission) (*Batch, error) {
	now := s.now().UTC().Truncate(time.Microsecond)
	entries := u.Draft.sorted(u.Template != nil)
	for _, e := range entries {
		e.checkExpiry(cert.Today(now))
	}
	files, err := s.findFiles(ctx, u.Institution.ID, entries, now)
	if err != nil {
		return nil, err
	}
	problems := u.Draft.problemsOf(entries)
	if p := u.Notify.Check(now); p != nil {
		problems = append(Problems{{Entry: NoEntry, Problem: *p}}, problems...)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	b := &Batch{
		UUID: uuid.Must(uuid.NewV7()).String(), Name: "Bulk upload of " + now.Format("2006-01-02 15:04") + " UTC", Source: cert.Vault, Context: u.Context,
		Total: len(entries), Processing: len(entries), CreatedAt: now, institutionID: u.Institution.ID,
	}
	if u.Template != nil {
		b.Name, b.Source = "Issued on "+now.Format("2006-01-02 15:04")+" UTC", cert.Template
		if err := s.nameTemplates(ctx, b.institutionID, map[int64][]*Batch{u.Template.VersionID: {b}}); err != nil {
			return nil, err
		}
	}
	if u.Name != "" {
		b.Name = u.Name
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := quota.CheckTx(ctx, tx, u.Institution, now, b.Total, 0); err != nil {
			return err
		}
		if err := quota.AddTx(ctx, tx, b.institutionID, now, b.Total); err != nil {
			return err
		}
		if err := s.insertTx(ctx, tx, b, &u); err != nil {
			return err
		}
		if err := insertEntriesTx(ctx, tx, b.id, entries, files, cert.Today(now)); err != nil {
			return err
		}
		if err := assignFilesTx(ctx, tx, u.Institution.ID, files); err != nil {
			return err
		}
		if err := s.enqueueTx(ctx, tx); err != nil {
			return err
		}
		if !u.Notify.Now() && s.plan != nil {
			if err := s.plan(ctx, tx, b.institutionID, b.UUID, u.Notify); err != nil {
				return err
			}
		}
		if err := audit.RecordTx(ctx, tx, audit.Entry{
			InstitutionID: u.Institution.ID, At: now, Action: audit.BatchAccepted, Detail: audit.Detail{"certificates": b.Total},
			Subject: audit.Subject{Type: "batch", ID: b.UUID, Name: b.Name},
		}); err != nil || u.Then == nil {
			return err
		}
		return u.Then(ctx, tx, b)
	})
	if err != nil {
		return nil, fmt.Errorf("accepting a batch: %w", err)
	}
	return b, nil
}

// findFiles maps the UUIDs of the staged files to which entries refer to their ids. It records
// problems for files that are unknown or have expired.
func (s *Service) findFiles(ctx context.Context, institutionID int64, entries []*entry, now time.Time) (map[string]int64, error) {
	var uuids []string
	seen := map[string]bool{}
	for _, e := range entries {
		if e.fileID != "" && !seen[e.fileID] {
			seen[e.fileID] = true
			uuids = append(uuids, e.fileID)
		}
	}
	files, err := s.find(ctx, institutionID, uuids, now)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, ok := files[e.fileID]; !ok && e.fileID != "" {
			e.add(cert.Problem{Field: cert.FieldFile, Code: CodeUnknownFile})
		}
	}
	return files, nil
}

func (s *Service) insertTx(ctx context.Context, tx *db.Tx, b *Batch, u *Submission) error {
	// The statement locks the row of the institution in batch_turns until tx ends, so that no two
	// transactions submit or expand batches of one institution at the same time.
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO batch_turns (institution_id, served_at) VALUES ($1, 0)
		ON CONFLICT (institution_id) DO UPDATE SET served_at = batch_turns.served_at`, b.institutionID); err != nil {
		return err
	}
	var version sql.NullInt64
	var base sql.NullString
	if t := u.Template; t != nil {
		version, base = sql.NullInt64{Int64: t.VersionID, Valid: true}, sql.NullString{String: t.BaseKey, Valid: true}
	}
	return tx.QueryRowContext(ctx, `
		INSERT INTO batches (uuid, institution_id, name, source, trigger_context, creator_type, creator_id, creator_name, total, created_at,
			template_version_id, base_key)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id`,
		b.UUID, b.institutionID, b.Name, string(b.Source), string(u.Context), u.Creator.Type, u.Creator.ID, u.Creator.Name, b.Total,
		db.Micros(b.CreatedAt), version, base).Scan(&b.id)
}

// insertEntriesTx stores entries, up to rowsAtOnce in one statement.
func insertEntriesTx(ctx context.Context, tx *db.Tx, batchID int64, entries []*entry, files map[string]int64, today string) error {
	for len(entries) > 0 {
		some := entries[:min(len(entries), rowsAtOnce)]
		entries = entries[len(some):]
		var query strings.Builder
		query.WriteString(`INSERT INTO batch_entries (batch_id, entry_index, status, input, staged_id) VALUES `)
		const columns = 5
		args := make([]any, 0, columns*len(some))
		for i, e := range some {
			if i > 0 {
				query.WriteString(", ")
			}
			query.WriteString("(" + db.Placeholders(columns*i+1, columns) + ")")
			input, err := e.input(today)
			if err != nil {
				return err
			}
			var file any
			if e.fileID != "" {
				file = files[e.fileID]
			}
			args = append(args, batchID, e.index, string(queued), input, file)
		}
		if _, err := tx.ExecContext(ctx, query.String(), args...); err != nil {
			return fmt.Errorf("storing entries: %w", err)
		}
	}
	return nil
}

// storedInput is an entry as it is stored until its certificate is created.
type storedInput struct {
	Title     string `json:"certificate_title,omitempty"`
	FullName  string `json:"full_name,omitempty"`
	Email     string `json:"applicant_email,omitempty"`
	IssueDate string `json:"issue_date,omitempty"`
	Details   string `json:"details,omitempty"`
	ExpiresOn string `json:"expires_on,omitempty"`
	// Placement is a cert.RequestedPlacement in JSON, or "".
	Placement string `json:"placement,omitempty"`
	// Values are the values of a certificate from a template.
	Values json.RawMessage `json:"values,omitempty"`
}

// input returns the stored form of an entry. A missing issue date becomes today's date, even if the
// certificate is created on a later day.
func (e *entry) input(today string) (string, error) {
	t := &e.text
	if t.IssueDate == "" {
		t.IssueDate = today
	}
	in := storedInput{Title: t.Title, FullName: t.FullName, Email: t.Email, IssueDate: t.IssueDate, Details: t.Details, ExpiresOn: t.ExpiresOn, Values: e.values}
	if e.wanted != nil {
		placement, err := json.Marshal(e.wanted)
		if err != nil {
			return "", fmt.Errorf("writing an entry: %w", err)
		}
		in.Placement = string(placement)
	}
	b, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("writing an entry: %w", err)
	}
	return string(b), nil
}

// read sets the text, the placement and the values of a certificate from the stored form of an
// entry.
func (in *storedInput) read(input string, u *cert.Upload) error {
	if err := json.Unmarshal([]byte(input), in); err != nil {
		return fmt.Errorf("reading an entry: %w", err)
	}
	if in.Placement != "" {
		if err := json.Unmarshal([]byte(in.Placement), &u.Wanted); err != nil {
			return fmt.Errorf("reading the placement of an entry: %w", err)
		}
	}
	u.Title, u.FullName, u.Email, u.IssueDate, u.Details = in.Title, in.FullName, in.Email, in.IssueDate, in.Details
	u.ExpiresOn = in.ExpiresOn
	if u.Template != nil {
		u.Template = &cert.TemplateUse{VersionID: u.Template.VersionID, Values: in.Values}
	}
	return nil
}

// assignFilesTx marks staged files as files of a batch, so that they no longer count toward the
// institution's quota. Other batches can still refer to them until they expire.
func assignFilesTx(ctx context.Context, tx *db.Tx, institutionID int64, files map[string]int64) error {
	ids := make([]any, 0, len(files))
	for _, id := range files {
		ids = append(ids, id)
	}
	var freed int64
	for len(ids) > 0 {
		some := ids[:min(len(ids), rowsAtOnce)]
		ids = ids[len(some):]
		sum, err := assignSomeTx(ctx, tx, some)
		if err != nil {
			return fmt.Errorf("assigning staged files to a batch: %w", err)
		}
		freed += sum
	}
	return releaseSpaceTx(ctx, tx, institutionID, freed)
}

func assignSomeTx(ctx context.Context, tx *db.Tx, ids []any) (freed int64, err error) {
	sizes, err := db.Column[int64](tx.QueryContext(ctx, `UPDATE staged_files SET kept = true WHERE NOT kept AND id IN (`+db.Placeholders(1, len(ids))+`) RETURNING size`, ids...))
	if err != nil {
		return 0, err
	}
	for _, size := range sizes {
		freed += size
	}
	return freed, nil
}
