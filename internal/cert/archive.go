package cert

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

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

const (
	// maxArchive bounds an archive in bytes: what every program that opens ZIP
	// files can, and a browser fetches in one go.
	maxArchive = 2 << 30
	// maxEntryName bounds what of a person's name and title is in a file's name,
	// in bytes.
	maxEntryName = 120
	// listName is the table of what is in an archive.
	listName = "certificates.csv"
)

// Archive is the verified PDFs of several certificates, to be written as one ZIP
// file: stored as they are, for they are compressed already.
type Archive struct {
	service       *Service
	institutionID int64
	with, without []*Certificate
	list          []byte
	// Size is how many bytes Write writes.
	Size int64
}

// Archive chooses what goes into an archive. Certificates that have no verified
// PDF are in its table alone. Too many, or too large, is Invalid: then nothing
// is written.
func (s *Service) Archive(ctx context.Context, institutionID int64, choice Choice) (*Archive, error) {
	of, err := s.chosen(ctx, institutionID, choice)
	if err != nil {
		return nil, err
	}
	a := &Archive{service: s, institutionID: institutionID}
	var size int64
	for c, err := range of {
		if err != nil {
			return nil, err
		}
		if c.Verified == nil {
			a.without = append(a.without, c)
		} else {
			a.with = append(a.with, c)
			size += c.Verified.Size
		}
		if len(a.with)+len(a.without) > MaxSelection || size > maxArchive {
			return nil, fault.OfField("certificates", fmt.Sprintf(
				"A ZIP file takes at most %d certificates and %d GB. Narrow the list down, for example to one batch or month, and fetch several.", MaxSelection, maxArchive>>30))
		}
	}
	if len(a.with) == 0 {
		return nil, fault.OfField("certificates", "None of these certificates has a verified PDF yet.")
	}
	if err := a.write(ctx, io.Discard, true); err != nil {
		return nil, err
	}
	return a, nil
}

// Write writes the archive, and records that it was asked for. Each file is read
// and held against its digest before its first byte is written. When one cannot
// be read, or is not what it was, the end of the archive is missing, and no
// program takes it for whole.
func (a *Archive) Write(ctx context.Context, w io.Writer) error {
	if err := a.service.exported(ctx, a.institutionID, audit.Detail{"format": "zip", "certificates": len(a.with)}); err != nil {
		return err
	}
	return a.write(ctx, w, false)
}

// write writes the archive; when it only measures, without the files, whose
// sizes it adds.
func (a *Archive) write(ctx context.Context, w io.Writer, measures bool) error {
	out := &counter{w: w}
	z := zip.NewWriter(out)
	if a.list == nil {
		if err := a.tabulate(); err != nil {
			return err
		}
	}
	if err := a.entry(z, listName, int64(len(a.list)), nil, crc32.ChecksumIEEE(a.list), func(w io.Writer) error {
		_, err := w.Write(a.list)
		return err
	}); err != nil {
		return err
	}
	for _, c := range a.with {
		if measures {
			if err := a.entry(z, entryName(c), c.Verified.Size, c, 0, func(io.Writer) error { return nil }); err != nil {
				return err
			}
			out.n += c.Verified.Size
			continue
		}
		if err := a.file(ctx, z, c); err != nil {
			return fmt.Errorf("writing certificate %s into an archive: %w", c.UUID, err)
		}
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("writing an archive: %w", err)
	}
	a.Size = out.n
	return nil
}

// file writes a verified PDF.
func (a *Archive) file(ctx context.Context, z *zip.Writer, c *Certificate) (err error) {
	content, err := a.service.OpenVerified(ctx, c)
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
	return a.entry(z, entryName(c), c.Verified.Size, c, sum.Sum32(), func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
}

// entry writes one file of the archive. Its size and checksum stand before it,
// which programs want that read an archive as it comes.
func (a *Archive) entry(z *zip.Writer, name string, size int64, c *Certificate, sum uint32, body func(io.Writer) error) error {
	const utf8Names = 1 << 11 // APPNOTE 6.3.10, 4.4.4, bit 11
	h := &zip.FileHeader{Name: name, Method: zip.Store, Flags: utf8Names, CRC32: sum, UncompressedSize64: uint64(size), CompressedSize64: uint64(size)}
	at := a.service.now()
	if c != nil && c.ApprovedAt != nil {
		at = *c.ApprovedAt
	}
	h.SetModTime(at.UTC()) //nolint:staticcheck // CreateRaw writes the old form of the time alone, which this sets
	w, err := z.CreateRaw(h)
	if err != nil {
		return err
	}
	return body(w)
}

// tabulate makes the table of all certificates of the archive.
func (a *Archive) tabulate() error {
	var b strings.Builder
	out := sheet.NewWriter(&b)
	if err := out.Write("File", "Reference id", "Full name", "Title", "Issue date", "Status", "SHA-256", "Verification page"); err != nil {
		return err
	}
	for _, part := range [][]*Certificate{a.with, a.without} {
		for _, c := range part {
			name, digest := "(none: no verified PDF)", ""
			if c.Verified != nil {
				name, digest = entryName(c), hex.EncodeToString(c.Verified.SHA256[:])
			}
			if err := out.Write(name, c.ReferenceID, c.FullName, c.Title, c.IssueDate, string(c.Status), digest, a.service.verifyURL(c.ReferenceID)); err != nil {
				return err
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	a.list = []byte(b.String())
	return nil
}

// entryName names a certificate's file in an archive: whose it is and what for,
// and the reference id, by which no two have the same. It is one that every file
// system takes: without separators, control characters and what Windows forbids.
func entryName(c *Certificate) string {
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
	if len(text) > maxEntryName {
		text = strings.TrimRight(strings.ToValidUTF8(text[:maxEntryName], ""), " .")
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

// Files is how many PDFs the archive has, of how many certificates.
func (a *Archive) Files() (files, certificates int) { return len(a.with), len(a.with) + len(a.without) }
