package task

import (
	"archive/zip"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"unicode"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

const (
	// maxArchive is the maximum number of certificates of an archive.
	maxArchive = 1000
	// maxArchiveSize is the maximum total size of the PDFs of an archive in bytes. Browsers can
	// download an archive of this size in one request, and all programs that open ZIP files can
	// read such an archive.
	maxArchiveSize = 2 << 30
	// maxFileName is the maximum length of the name and the title in a file name, in bytes.
	maxFileName = 120
	// archiveTable is the name of the file with the table of certificates in an archive.
	archiveTable = "certificates.csv"
	// archiveMissing is the name of the file that lists the missing files. An archive has it only if
	// files are missing.
	archiveMissing = "missing-files.txt"
)

// Archive is a ZIP archive of verified PDFs. The files are stored without compression, since PDFs
// are compressed already.
type Archive struct {
	service      *Service
	list, others []*cert.Certificate
	// damaged has the certificates of list whose stored files Write found damaged or missing.
	damaged map[*cert.Certificate]bool
	// Size is the number of bytes that Write writes if no stored file is damaged or missing.
	Size int64
	// Missing is the number of selected certificates that are not approved or have no verified PDF. They
	// are only in the table of the archive.
	Missing int
}

var errManyFiles = fault.New(fault.Invalid, fmt.Sprintf(
	"One ZIP can contain at most %d certificates and %d GB. Narrow the list down, for example to one batch or month, and download several ZIPs.", maxArchive, maxArchiveSize>>30))

// Archive prepares an archive of the verified PDFs of a selection, and records the export in the
// audit log. It returns a fault of kind Invalid if the selection is not valid, or if the archive
// would be too large or would have no PDF.
func (s *Service) Archive(ctx context.Context, institutionID int64, selection Selection) (*Archive, error) {
	p := &Archive{service: s}
	var size int64
	err := s.walk(ctx, institutionID, selection, func(c *cert.Certificate) error {
		if c.Status != cert.Approved || c.Verified == nil {
			p.others = append(p.others, c)
			p.Missing++
		} else {
			p.list = append(p.list, c)
			size += c.Verified.Size
		}
		if len(p.list)+len(p.others) > maxArchive || size > maxArchiveSize {
			return errManyFiles
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.list) == 0 {
		return nil, fault.New(fault.Invalid, "None of these certificates has a verified PDF.")
	}
	if err := p.write(ctx, io.Discard, true); err != nil {
		return nil, err
	}
	return p, s.recordExport(ctx, institutionID, "zip", selection)
}

// Count returns the number of PDFs in the archive.
func (p *Archive) Count() int { return len(p.list) }

// Write writes the archive. It compares each file with its digest before it writes the file. A file
// that is damaged or missing is not in the archive. The table states this, and the file
// archiveMissing lists the missing files. If another error occurs, Write stops. The archive then
// has no central directory, so no program accepts it as complete.
func (p *Archive) Write(ctx context.Context, out io.Writer) error { return p.write(ctx, out, false) }

// write writes the archive and sets its size. If sizeOnly is true, it does not write the content of the
// PDFs, but adds their sizes.
func (p *Archive) write(ctx context.Context, w io.Writer, sizeOnly bool) error {
	out := &counter{w: w}
	z := zip.NewWriter(out)
	p.damaged = map[*cert.Certificate]bool{}
	for _, c := range p.list {
		var err error
		if sizeOnly {
			err = p.entry(z, fileName(c), c, c.Verified.Size, 0, strings.NewReader(""))
			out.n += c.Verified.Size
		} else {
			err = p.add(ctx, z, c)
		}
		if fault.Is(err, fault.Damaged) {
			p.damaged[c] = true
			continue
		}
		if err != nil {
			return fmt.Errorf("writing certificate %s into an archive: %w", c.UUID, err)
		}
	}
	// The table and the list of missing files are written last, because the loop above finds the
	// missing files.
	table, err := p.table()
	if err == nil {
		err = p.text(z, archiveTable, table)
	}
	if err == nil && len(p.damaged) > 0 {
		err = p.text(z, archiveMissing, p.missing())
	}
	if err != nil {
		return fmt.Errorf("writing the table of an archive: %w", err)
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	p.Size = out.n
	return nil
}

// add writes the verified PDF of a certificate.
func (p *Archive) add(ctx context.Context, z *zip.Writer, c *cert.Certificate) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	content, err := p.service.certs.OpenVerified(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(content, 0, content.Size())); err != nil {
		return err
	}
	return p.entry(z, fileName(c), c, content.Size(), sum.Sum32(), content)
}

// text writes a text file into the archive.
func (p *Archive) text(z *zip.Writer, name, text string) error {
	return p.entry(z, name, nil, int64(len(text)), crc32.ChecksumIEEE([]byte(text)), strings.NewReader(text))
}

// entry writes one file of the archive. The size and the checksum precede the content, because
// programs that read an archive as a stream need them first.
func (p *Archive) entry(z *zip.Writer, name string, c *cert.Certificate, size int64, sum uint32, body io.Reader) error {
	const utf8Names = 1 << 11 // APPNOTE 6.3.10, 4.4.4, bit 11
	h := &zip.FileHeader{Name: name, Method: zip.Store, Flags: utf8Names, CRC32: sum, UncompressedSize64: uint64(size), CompressedSize64: uint64(size)}
	at := p.service.now()
	if c != nil {
		at = *c.ApprovedAt
	}
	h.SetModTime(at.UTC()) //nolint:staticcheck // CreateRaw writes only the old form of the time, which SetModTime sets
	w, err := z.CreateRaw(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, body)
	return err
}

// missing returns the list of the missing files.
func (p *Archive) missing() string {
	var b strings.Builder
	b.WriteString("The vault's stored files of these certificates are damaged or missing, so they are not in this archive.\n" +
		"Ask the operator of the vault to restore them from a backup. The certificates themselves are not affected.\n\n")
	for _, c := range p.list {
		if p.damaged[c] {
			b.WriteString(fileName(c) + "\n")
		}
	}
	return b.String()
}

// table returns the table of the archive as CSV.
func (p *Archive) table() (string, error) {
	var b strings.Builder
	out := sheet.NewWriter(&b)
	if err := out.Write("File", "Reference id", "Full name", "Title", "Issue date", "Status", "SHA-256", "Verification page", "Expires on"); err != nil {
		return "", err
	}
	for _, part := range [][]*cert.Certificate{p.list, p.others} {
		for _, c := range part {
			name, digest := "(none: no valid verified PDF)", ""
			if c.FilesDeletedAt != nil {
				name = "(none: its files were deleted)"
			}
			if c.Status == cert.Approved && c.Verified != nil {
				name, digest = fileName(c), hex.EncodeToString(c.Verified.SHA256[:])
			}
			if p.damaged[c] {
				name = "(none: the stored file is damaged or missing)"
			}
			if err := out.Write(name, c.ReferenceID, c.FullName, c.Title, c.IssueDate, string(c.Status), digest, p.service.verifyURL(c.ReferenceID), c.ExpiresOn); err != nil {
				return "", err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return "", err
	}
	return b.String(), nil
}

// fileName returns the name of a certificate's file: the name and the title, shortened if needed,
// and the unique reference id. The file name is valid in every file system: it has no separators,
// no control characters and no characters that Windows forbids.
func fileName(c *cert.Certificate) string {
	clean := func(r rune) rune {
		switch {
		case strings.ContainsRune(`<>:"/\|?*`, r):
			return '-'
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == unicode.ReplacementChar:
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}
	text := strings.Trim(strings.Map(clean, c.FullName+", "+c.Title), " .-~")
	if len(text) > maxFileName {
		text = strings.TrimRight(strings.ToValidUTF8(text[:maxFileName], ""), " .")
	}
	return text + ", " + c.ReferenceID + ".pdf"
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
