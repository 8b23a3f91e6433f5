package task

import (
	"archive/zip"
	"context"
	"crypto/sha256"
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
	// MaxPack is how many certificates one archive of verified PDFs can have.
	MaxPack = 1000
	// MaxPackSize is how many bytes it can have: what a browser fetches in one go,
	// and every program that opens ZIP files can.
	MaxPackSize = 2 << 30
	// maxPackName bounds what of a person's name and title is in a file's name, in
	// bytes.
	maxPackName = 120
	// packList is the table of what is in an archive.
	packList = "certificates.csv"
)

// Pack is an archive of verified PDFs that is about to be written as ZIP: stored
// as they are, for they are compressed already.
type Pack struct {
	service       *Service
	list, without []*cert.Certificate
	table         []byte
	// Size is how many bytes Write writes.
	Size int64
	// Missing is how many certificates of the choice have no verified PDF, or one
	// that was revoked; they are in the archive's table alone.
	Missing int
}

var errManyFiles = fault.New(fault.Invalid, fmt.Sprintf(
	"One ZIP can have %d certificates and %d GB. Narrow the list down, for example to one batch or month, and make several.", MaxPack, MaxPackSize>>30))

// Pack prepares an archive of the verified PDFs of a choice. It refuses what would
// be too large before a byte of it is written.
func (s *Service) Pack(ctx context.Context, institutionID int64, c Choice) (*Pack, error) {
	p := &Pack{service: s}
	var size int64
	err := s.Walk(ctx, institutionID, c, func(one *cert.Certificate) error {
		if one.Status != cert.Approved || one.Verified == nil {
			p.without = append(p.without, one)
			p.Missing++
		} else {
			p.list = append(p.list, one)
			size += one.Verified.Size
		}
		if len(p.list)+len(p.without) > MaxPack || size > MaxPackSize {
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
	if err := p.tabulate(); err != nil {
		return nil, err
	}
	if err := p.write(ctx, io.Discard, true); err != nil {
		return nil, err
	}
	return p, s.recordExport(ctx, institutionID, "zip", c)
}

// Count gives how many PDFs the archive has.
func (p *Pack) Count() int { return len(p.list) }

// Write writes the archive. Each file is read and held against its digest before
// its first byte is written. When one cannot be read, or is not what it was, it
// ends there: the directory at the archive's end is missing, and no program takes
// it for whole.
func (p *Pack) Write(ctx context.Context, out io.Writer) error { return p.write(ctx, out, false) }

// write writes the archive; when it only measures, without the files, whose
// sizes it adds.
func (p *Pack) write(ctx context.Context, w io.Writer, measures bool) error {
	out := &counter{w: w}
	z := zip.NewWriter(out)
	if err := p.entry(z, packList, nil, int64(len(p.table)), crc32.ChecksumIEEE(p.table), strings.NewReader(string(p.table))); err != nil {
		return err
	}
	for _, c := range p.list {
		var err error
		if measures {
			err = p.entry(z, packName(c), c, c.Verified.Size, 0, strings.NewReader(""))
			out.n += c.Verified.Size
		} else {
			err = p.add(ctx, z, c)
		}
		if err != nil {
			return fmt.Errorf("writing certificate %s into an archive: %w", c.UUID, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	p.Size = out.n
	return nil
}

// add writes a verified PDF.
func (p *Pack) add(ctx context.Context, z *zip.Writer, c *cert.Certificate) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	content, err := p.service.certs.OpenVerified(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	digest, sum := sha256.New(), crc32.NewIEEE()
	if _, err := io.Copy(io.MultiWriter(digest, sum), content); err != nil {
		return err
	}
	if content.Size() != c.Verified.Size || [sha256.Size]byte(digest.Sum(nil)) != c.Verified.SHA256 {
		return errors.New("the stored file is not the one that was made")
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.entry(z, packName(c), c, c.Verified.Size, sum.Sum32(), content)
}

// entry writes one file of the archive. Its size and checksum stand before it,
// which programs want that read an archive as it comes.
func (p *Pack) entry(z *zip.Writer, name string, c *cert.Certificate, size int64, sum uint32, body io.Reader) error {
	const utf8Names = 1 << 11 // APPNOTE 6.3.10, 4.4.4, bit 11
	h := &zip.FileHeader{Name: name, Method: zip.Store, Flags: utf8Names, CRC32: sum, UncompressedSize64: uint64(size), CompressedSize64: uint64(size)}
	at := p.service.now()
	if c != nil {
		at = *c.ApprovedAt
	}
	h.SetModTime(at.UTC()) //nolint:staticcheck // CreateRaw writes the old form of the time alone, which this sets
	w, err := z.CreateRaw(h)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, body)
	return err
}

// tabulate makes the table of all certificates of the archive.
func (p *Pack) tabulate() error {
	var b strings.Builder
	out := sheet.NewWriter(&b)
	if err := out.Write("File", "Reference id", "Full name", "Title", "Issue date", "Status", "SHA-256", "Verification page"); err != nil {
		return err
	}
	for _, part := range [][]*cert.Certificate{p.list, p.without} {
		for _, c := range part {
			name, digest := "(none: no valid verified PDF)", ""
			if c.FilesEndedAt != nil {
				name = "(none: its files have ended)"
			}
			if c.Status == cert.Approved && c.Verified != nil {
				name, digest = packName(c), hex.EncodeToString(c.Verified.SHA256[:])
			}
			if err := out.Write(name, c.ReferenceID, c.FullName, c.Title, c.IssueDate, string(c.Status), digest, p.service.verifyURL(c.ReferenceID)); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	p.table = []byte(b.String())
	return nil
}

// packName names a certificate's file: whose it is and what for, and the reference
// id, by which no two have the same. It is one that every file system takes:
// without separators, control characters and what Windows forbids.
func packName(c *cert.Certificate) string {
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
	if len(text) > maxPackName {
		text = strings.TrimRight(strings.ToValidUTF8(text[:maxPackName], ""), " .")
	}
	return text + ", " + c.ReferenceID + ".pdf"
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
