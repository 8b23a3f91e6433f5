package cert

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/sheet"
)

// Choice is which certificates an operation is about: those named by UUID or,
// where none is, all that the filter selects.
type Choice struct {
	UUIDs  []string
	Filter Filter
}

// exportColumns is a line of the export, column by column.
var exportColumns = []struct {
	title string
	of    func(s *Service, c *Certificate) string
}{
	{"Reference id", func(_ *Service, c *Certificate) string { return c.ReferenceID }},
	{"Status", func(_ *Service, c *Certificate) string { return string(c.Status) }},
	{"Full name", func(_ *Service, c *Certificate) string { return c.FullName }},
	{"E-mail", func(_ *Service, c *Certificate) string { return c.Email }},
	{"Title", func(_ *Service, c *Certificate) string { return c.Title }},
	{"Issue date", func(_ *Service, c *Certificate) string { return c.IssueDate }},
	{"Details", func(_ *Service, c *Certificate) string { return c.Details }},
	{"Verification page", func(s *Service, c *Certificate) string { return s.verifyURL(c.ReferenceID) }},
	{"Created (UTC)", func(_ *Service, c *Certificate) string { return exportTime(&c.CreatedAt) }},
	{"Created by", func(_ *Service, c *Certificate) string { return c.Creator.Name }},
	{"Verified PDF made (UTC)", func(_ *Service, c *Certificate) string { return exportTime(c.ApprovedAt) }},
	{"Failure code", func(_ *Service, c *Certificate) string { return c.failure().Code }},
	{"Failure", func(_ *Service, c *Certificate) string { return c.failure().Message }},
	{"Revoked (UTC)", func(_ *Service, c *Certificate) string { return exportTime(c.RevokedAt) }},
	{"Reason for the public", func(_ *Service, c *Certificate) string { return c.RevocationReason }},
	{"Internal note", func(_ *Service, c *Certificate) string { return c.RevocationNote }},
	{"Batch id", func(_ *Service, c *Certificate) string { return c.BatchID }},
	{"File name", func(_ *Service, c *Certificate) string { return c.File.Name }},
	{"SHA-256 of the original", func(_ *Service, c *Certificate) string { return hex.EncodeToString(c.File.SHA256[:]) }},
	{"SHA-256 of the verified PDF", func(_ *Service, c *Certificate) string {
		if c.Verified == nil {
			return ""
		}
		return hex.EncodeToString(c.Verified.SHA256[:])
	}},
	{"Certificate UUID", func(_ *Service, c *Certificate) string { return c.UUID }},
}

func exportTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func (c *Certificate) failure() Failure {
	if c.Failure == nil {
		return Failure{}
	}
	return *c.Failure
}

// Export writes certificates as CSV for spreadsheets while it reads them, newest
// first, and records that it was asked for: an export that breaks off is one
// too. An error before the first byte can still be answered.
func (s *Service) Export(ctx context.Context, w io.Writer, institutionID int64, choice Choice) error {
	of, err := s.chosen(ctx, institutionID, choice)
	if err != nil {
		return err
	}
	if err := s.exported(ctx, institutionID, audit.Detail{"format": "csv", "filter": choice.words()}); err != nil {
		return err
	}
	out := sheet.NewWriter(w)
	row := make([]string, len(exportColumns))
	for i := range exportColumns {
		row[i] = exportColumns[i].title
	}
	if err := out.Write(row...); err != nil {
		return err
	}
	for c, err := range of {
		if err != nil {
			return err
		}
		for i := range exportColumns {
			row[i] = exportColumns[i].of(s, c)
		}
		if err := out.Write(row...); err != nil {
			return err
		}
	}
	return out.Flush()
}

// chosen gives the certificates of a choice, and its errors as far as they can
// be known before the first of them.
func (s *Service) chosen(ctx context.Context, institutionID int64, choice Choice) (func(func(*Certificate, error) bool), error) {
	if len(choice.UUIDs) > 0 {
		list, err := s.Some(ctx, institutionID, choice.UUIDs)
		return func(yield func(*Certificate, error) bool) {
			for _, c := range list {
				if !yield(c, nil) {
					return
				}
			}
		}, err
	}
	f := choice.Filter
	f.Page, f.PerPage, f.Cursor = 1, 1, nil
	_, err := f.read(institutionID)
	return s.Walk(ctx, institutionID, f), err
}

// words tells a choice to the audit log, without the names and addresses that
// may be sought in it.
func (c *Choice) words() map[string]string {
	if len(c.UUIDs) > 0 {
		return map[string]string{"chosen": strconv.Itoa(len(c.UUIDs))}
	}
	words := map[string]string{}
	for name, value := range map[string]string{
		"batch_id": c.Filter.BatchID, "failure": c.Filter.FailureCode, "issue_date_from": c.Filter.IssuedFrom, "issue_date_to": c.Filter.IssuedTo,
		"generated_at_from": c.Filter.GeneratedFrom, "generated_at_to": c.Filter.GeneratedTo,
	} {
		if value != "" {
			words[name] = value
		}
	}
	if len(c.Filter.Statuses) > 0 {
		words["status"] = fmt.Sprint(c.Filter.Statuses)
	}
	if c.Filter.Search != "" || c.Filter.Email != "" {
		words["search"] = "yes"
	}
	return words
}

// exported records that certificates left the vault.
func (s *Service) exported(ctx context.Context, institutionID int64, detail audit.Detail) error {
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: institutionID, At: s.now(), Action: audit.CertificateExported, Detail: detail})
	})
}
