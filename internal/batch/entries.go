package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

// Entry is an entry of a batch and its result.
type Entry struct {
	// Index is the index that the client sent.
	Index int
	// Status is queued, rejected, or the status of the entry's certificate.
	Status string
	// UUID and ReferenceID identify the entry's certificate; they are "" if there is none.
	UUID, ReferenceID string
	// ErrorCode is the code of the reason for a failure or a rejection, or "". Error is the reason as
	// text. Error is set for a certificate that failed and for a rejection without Problem.
	ErrorCode, Error string
	// Problem is the reason for a rejection. It is nil if the entry is not rejected or if only Error
	// has the reason.
	Problem *cert.Problem
	// ExistingUUID is the UUID of the existing certificate if the entry is a duplicate.
	ExistingUUID string
	// Text is the text of the entry's certificate, including later corrections.
	Text cert.Text
}

// Entries is one page of the entries of a batch.
type Entries struct {
	listing.Part

	Items []Entry
}

// entryList identifies the list to which a cursor of entries belongs. entryPlace is a position in
// the list.
type (
	entryList struct {
		InstitutionID int64  `json:"institution"`
		Batch         string `json:"batch"`
	}
	entryPlace struct {
		Index int `json:"i"`
	}
)

// Entries returns a page of a batch's entries, ordered by index.
func (s *Service) Entries(ctx context.Context, b *Batch, r listing.Range) (list *Entries, err error) {
	var bad fault.Fields
	if r.Check(&bad); bad.Err() != nil {
		return nil, bad.Err()
	}
	of, after := entryList{b.institutionID, b.UUID}, entryPlace{-1}
	if r.HasPosition() {
		if err := s.entryCursors.Open(of, *r.Cursor, &after); err != nil {
			return nil, err
		}
	}
	list = &Entries{}
	if !r.HasCursor() {
		list.Total = &b.Total
	}
	if list.Items, err = s.entries(ctx, b, after.Index, r.PerPage+1, r.Offset()); err != nil {
		return nil, err
	}
	if len(list.Items) > r.PerPage {
		list.Items, list.More = list.Items[:r.PerPage], true
		list.Next, err = s.entryCursors.Make(of, entryPlace{list.Items[r.PerPage-1].Index})
	}
	return list, err
}

// AllEntries returns all entries of a batch, at most MaxEntries.
func (s *Service) AllEntries(ctx context.Context, b *Batch) ([]Entry, error) {
	return s.entries(ctx, b, -1, MaxEntries, 0)
}

func (s *Service) entries(ctx context.Context, b *Batch, after, limit, offset int) (list []Entry, err error) {
	rows, err := s.db.QueryContext(ctx, `
		SELECT e.entry_index, coalesce(c.status, e.status), coalesce(c.uuid, ''), coalesce(c.reference_id, ''),
			coalesce(c.failure_code, e.error_code, ''), coalesce(c.failure_message, e.error, ''), coalesce(e.problem, ''), coalesce(e.existing_uuid, ''),
			coalesce(c.title, ''), coalesce(c.full_name, ''), coalesce(c.email, ''), coalesce(c.issue_date, ''), coalesce(c.details, ''),
			coalesce(c.expires_on, '')
		FROM (SELECT entry_index, status, certificate_id, error_code, error, problem, existing_uuid FROM batch_entries
				WHERE batch_id = $1 AND entry_index > $5 ORDER BY entry_index LIMIT $3 OFFSET $4) AS e
			LEFT JOIN certificates c ON c.id = e.certificate_id AND c.institution_id = $2
		ORDER BY e.entry_index`, b.id, b.institutionID, limit, offset, after)
	if err != nil {
		return nil, fmt.Errorf("reading entries: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var e Entry
		var problem string
		if err := rows.Scan(&e.Index, &e.Status, &e.UUID, &e.ReferenceID, &e.ErrorCode, &e.Error, &problem, &e.ExistingUUID,
			&e.Text.Title, &e.Text.FullName, &e.Text.Email, &e.Text.IssueDate, &e.Text.Details,
			&e.Text.ExpiresOn); err != nil {
			return nil, fmt.Errorf("reading entries: %w", err)
		}
		switch {
		case problem != "":
			if err := json.Unmarshal([]byte(problem), &e.Problem); err != nil {
				return nil, fmt.Errorf("reading the problem of an entry: %w", err)
			}
		case e.UUID == "" && e.ExistingUUID != "":
			e.Problem = &cert.Problem{Field: cert.FieldEmail, Code: cert.CodeDuplicate, Detail: e.ExistingUUID}
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading entries: %w", err)
	}
	return list, nil
}
