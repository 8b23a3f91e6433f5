package cert

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
	"github.com/certvault/certvault/internal/sheet"
)

const (
	// walkPage is how many records are read at a time where all are wanted.
	walkPage = 1000
	// MaxPack is how many files one archive of verified PDFs can have, and
	// MaxPackSize how many bytes.
	MaxPack     = 2000
	MaxPackSize = 4 << 30
)

// Walk gives all certificates of a choice to f, in the order of the filter, without
// holding more than a few of them. It ends at the first error.
func (s *Service) Walk(ctx context.Context, institutionID int64, c Choice, f func(*Certificate) error) error {
	var bad fault.Fields
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

// Pack is an archive of verified PDFs that is about to be written.
type Pack struct {
	service *Service
	list    []*Certificate
	// Size is about how many bytes it has, Missing how many certificates of the
	// choice have no verified PDF, or one that was revoked.
	Size    int64
	Missing int
}

var errManyFiles = fault.New(fault.BadRequest, fmt.Sprintf("One ZIP can have %d certificates and %d GB. Narrow the list down and make several.", MaxPack, MaxPackSize>>30))

// Pack prepares an archive of the verified PDFs of a choice. It refuses what would
// be too large before a byte of it is written.
func (s *Service) Pack(ctx context.Context, institutionID int64, c Choice) (*Pack, error) {
	p := &Pack{service: s}
	err := s.Walk(ctx, institutionID, c, func(one *Certificate) error {
		if one.Status != Approved || one.Verified == nil {
			p.Missing++
			return nil
		}
		p.Size += one.Verified.Size
		p.list = append(p.list, one)
		if len(p.list) > MaxPack || p.Size > MaxPackSize {
			return errManyFiles
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.list) == 0 {
		return nil, fault.New(fault.BadRequest, "None of these certificates has a verified PDF.")
	}
	return p, s.recordExport(ctx, institutionID, "zip", c)
}

// Write writes the archive. PDFs are packed already, so they are stored as they
// are. One that cannot be read is named in a text file at the end.
func (p *Pack) Write(ctx context.Context, out io.Writer) error {
	w := zip.NewWriter(out)
	var missing []string
	for _, c := range p.list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.add(ctx, w, c); err != nil {
			if _, ok := errors.AsType[*unreadableError](err); !ok {
				return err
			}
			missing = append(missing, c.ReferenceID+" "+c.FullName)
		}
	}
	if len(missing) > 0 {
		note, err := w.Create("NOT IN THIS ZIP.txt")
		if err != nil {
			return fmt.Errorf("writing an archive: %w", err)
		}
		if _, err := io.WriteString(note, "The files of these certificates could not be read:\r\n"+strings.Join(missing, "\r\n")+"\r\n"); err != nil {
			return fmt.Errorf("writing an archive: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	return nil
}

// unreadableError is a verified PDF that cannot be opened.
type unreadableError struct{ error }

func (p *Pack) add(ctx context.Context, w *zip.Writer, c *Certificate) (err error) {
	content, err := p.service.OpenVerified(ctx, c)
	if err != nil {
		return &unreadableError{err}
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	entry, err := w.CreateHeader(&zip.FileHeader{Name: packName(c), Method: zip.Store, Modified: *c.ApprovedAt})
	if err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	if _, err := io.Copy(entry, content); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	return nil
}

// maxNamePart bounds the name of a person in the name of a file, in code points.
const maxNamePart = 80

// packName names a certificate's file: by the person, and by its reference id, so
// that no two are the same.
func packName(c *Certificate) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`<>:"/\|?*`, r) || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, c.FullName)
	if runes := []rune(name); len(runes) > maxNamePart {
		name = string(runes[:maxNamePart])
	}
	return strings.Trim(name, " .") + " " + c.ReferenceID + ".pdf"
}

// Count gives how many files the archive has.
func (p *Pack) Count() int { return len(p.list) }
