package cert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/sheet"
)

// walkPage is how many records are read at a time where all are wanted.
const walkPage = 1000

// Walk gives all certificates of a choice to f, in the order of the filter, without
// holding more than a few of them. It ends at the first error.
func (s *Service) Walk(ctx context.Context, institutionID int64, c Choice, f func(*Certificate) error) error {
	var bad Problems
	selected := checkSelected(&bad, c.Selected)
	if err := bad.Err(); err != nil {
		return err
	}
	for _, id := range selected {
		one, err := s.ByUUID(ctx, institutionID, id)
		if errors.Is(err, errNotFound) {
			continue
		}
		if err == nil {
			err = f(one)
		}
		if err != nil {
			return err
		}
	}
	if len(selected) > 0 {
		return nil
	}
	next := ""
	for {
		filter := c.Filter
		filter.Range = listing.Range{PerPage: listing.MaxPage, Cursor: &next}
		l, err := s.walkFrom(ctx, institutionID, filter)
		if err != nil {
			return err
		}
		for _, one := range l.Items {
			if err := f(one); err != nil {
				return err
			}
		}
		if next = l.Next; next == "" {
			return nil
		}
	}
}

// walkFrom is List with more records at a time than anybody may ask for.
func (s *Service) walkFrom(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	v, err := f.read(institutionID)
	if err != nil {
		return nil, err
	}
	v.limit = walkPage
	if f.Begun() {
		v.after = &place{}
		if err := s.cursors.Open(v, *f.Cursor, v.after); err != nil {
			return nil, err
		}
	}
	l, err := s.list(ctx, v, true)
	if err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	return l, nil
}

// recordExport notes that certificates of a choice left the vault.
func (s *Service) recordExport(ctx context.Context, institutionID int64, form string, c Choice) error {
	detail := audit.Detail{"form": form}
	if len(c.Selected) > 0 {
		detail["selected"] = len(c.Selected)
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		return audit.RecordTx(ctx, tx, audit.Entry{InstitutionID: institutionID, At: s.now(), Action: audit.CertificateExported, Detail: detail})
	})
}

// exportHeader is the first row of an export.
var exportHeader = []string{
	"Reference id", "Status", "Certificate title", "Full name", "E-mail", "Issue date", "Details", "Verification address", "Certificate", "Batch",
	"Failure", "Revocation reason", "File name", "SHA-256 of the original", "SHA-256 of the verified PDF", "Created", "Approved", "Revoked",
}

// WriteCSV writes all certificates of a choice as CSV.
func (s *Service) WriteCSV(ctx context.Context, institutionID int64, c Choice, out io.Writer) error {
	if err := s.recordExport(ctx, institutionID, "csv", c); err != nil {
		return err
	}
	w := sheet.NewWriter(out)
	if err := w.Write(exportHeader...); err != nil {
		return err
	}
	if err := s.Walk(ctx, institutionID, c, func(one *Certificate) error { return w.Write(s.exported(one)...) }); err != nil {
		return err
	}
	return w.Flush()
}

func (s *Service) exported(c *Certificate) []string {
	failure, verified := "", ""
	if c.Failure != nil {
		failure = c.Failure.Message
	}
	if c.Verified != nil {
		verified = fmt.Sprintf("%x", c.Verified.SHA256)
	}
	moment := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	return []string{
		c.ReferenceID, string(c.Status), c.Title, c.FullName, c.Email, c.IssueDate, c.Details, s.verifyURL(c.ReferenceID), c.UUID, c.BatchID,
		failure, c.RevocationReason, c.File.Name, fmt.Sprintf("%x", c.File.SHA256), verified, moment(&c.CreatedAt), moment(c.ApprovedAt), moment(c.RevokedAt),
	}
}
