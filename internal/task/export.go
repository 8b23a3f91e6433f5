package task

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

// walk calls f for all certificates of a selection, in the order of the selected ids or of the filter. It
// skips ids of certificates that the institution does not have. It stops at the first error and returns
// it.
func (s *Service) walk(ctx context.Context, institutionID int64, c Selection, f func(*cert.Certificate) error) error {
	var bad cert.Problems
	selected := checkSelected(&bad, c.Selected)
	if err := bad.Err(); err != nil {
		return err
	}
	for _, id := range selected {
		found, err := s.certs.ByUUID(ctx, institutionID, id)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err == nil {
			err = f(found)
		}
		if err != nil {
			return err
		}
	}
	if len(selected) > 0 {
		return nil
	}
	return s.search.Walk(ctx, institutionID, c.Filter, f)
}

// recordExport records in the audit log that certificates were exported.
func (s *Service) recordExport(ctx context.Context, institutionID int64, form string, c Selection) error {
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
	"Expires on", "Replaces", "Replaced by", "Total signatures", "Approved signatures",
}

// exportedAtOnce is the number of certificates whose signatures an export counts at a time.
const exportedAtOnce = 500

// WriteCSV records the export in the audit log, and writes all certificates of a selection as CSV.
func (s *Service) WriteCSV(ctx context.Context, institutionID int64, c Selection, out io.Writer) error {
	if err := s.recordExport(ctx, institutionID, "csv", c); err != nil {
		return err
	}
	w := sheet.NewWriter(out)
	if err := w.Write(exportHeader...); err != nil {
		return err
	}
	var some []*cert.Certificate
	write := func() error {
		defer func() { some = some[:0] }()
		return s.writeRows(ctx, institutionID, some, w)
	}
	if err := s.walk(ctx, institutionID, c, func(c *cert.Certificate) error {
		if some = append(some, c); len(some) < exportedAtOnce {
			return nil
		}
		return write()
	}); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return w.Flush()
}

// writeRows writes the rows of certificates.
func (s *Service) writeRows(ctx context.Context, institutionID int64, list []*cert.Certificate, w *sheet.Writer) error {
	var ids []int64
	for _, c := range list {
		if c.Template != nil {
			ids = append(ids, c.ID) // other certificates have no signatories
		}
	}
	signatures, err := s.certs.CountSignatures(ctx, institutionID, ids...)
	if err != nil {
		return err
	}
	for _, c := range list {
		row := s.exported(c)
		if n, ok := signatures[c.ID]; ok {
			row = append(row, strconv.Itoa(n.Total), strconv.Itoa(n.Approved))
		} else {
			row = append(row, "", "")
		}
		if err := w.Write(row...); err != nil {
			return err
		}
	}
	return nil
}

// exported returns the row of a certificate, without the numbers of signatures.
func (s *Service) exported(c *cert.Certificate) []string {
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
		failure, c.RevocationReason, c.File.Name, c.OriginalDigest(), verified, moment(&c.CreatedAt), moment(c.ApprovedAt), moment(c.RevokedAt),
		c.ExpiresOn, referenceOf(c.Replaces), referenceOf(c.ReplacedBy),
	}
}

// referenceOf returns the reference id of a link to another certificate, or "".
func referenceOf(l *cert.Link) string {
	if l == nil {
		return ""
	}
	return l.ReferenceID
}
