package bulkimport

import (
	"archive/zip"
	"compress/flate"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/sheet"
)

const (
	// MaxArchive is the maximum size of an archive in bytes: 2 GB.
	MaxArchive = 2 << 30
	// maxUnpacked is the maximum sum of the unpacked sizes that the directory of an archive
	// declares, in bytes.
	maxUnpacked = 20 << 30
	// maxRatio is the maximum compression ratio of a file of more than smallFile bytes. PDFs and
	// pictures are already compressed, so a ZIP makes them only a little smaller.
	maxRatio  = 100
	smallFile = 1 << 20
	// maxNotices is the maximum number of notices of one archive.
	maxNotices = 50
)

// archiveStatus is the state of an archive.
type archiveStatus string

const (
	unpacking archiveStatus = "unpacking"
	unpacked  archiveStatus = "unpacked"
)

// Archive is a ZIP of files for a draft.
type Archive struct {
	ID   int64
	Name string
	// Entries is the number of entries of the archive. Place is the number of entries that were
	// processed.
	Entries, Place int
	Done           bool
	// Notices has the names of the entries that were skipped, with the reasons.
	Notices []string

	key     string
	draftID int64
}

const archiveColumns = `id, draft_id, name, blob_key, status, entries, place, notices`

func scanArchive(row interface{ Scan(dest ...any) error }) (*Archive, error) {
	a := &Archive{}
	var status archiveStatus
	var notices string
	if err := row.Scan(&a.ID, &a.draftID, &a.Name, &a.key, &status, &a.Entries, &a.Place, &notices); err != nil {
		return nil, err
	}
	a.Done = status == unpacked
	return a, decode(notices, &a.Notices)
}

// AddArchive stores a ZIP and starts the job that unpacks it into a draft. The error is fault.Invalid if
// the ZIP is damaged, too large, or has too many files. An error of r is wrapped in the returned error.
func (s *Service) AddArchive(ctx context.Context, inst *account.Institution, d *Draft, name string, r io.Reader) (*Archive, error) {
	if err := s.batches.CheckQuota(ctx, inst.ID); err != nil {
		return nil, err
	}
	a := &Archive{Name: listName(name), key: cert.ArchiveKey(inst.UUID), Notices: []string{}}
	err := blob.Receive(ctx, s.blobs, a.key, &limited{r: r, left: MaxArchive}, func(int64) (err error) {
		a.Entries, err = s.checkArchive(ctx, a.key)
		return err
	}, func() error {
		return s.update(ctx, d, "adding an archive", func(tx *db.Tx) error {
			if err := tx.QueryRowContext(ctx, `
				INSERT INTO bulk_import_archives (draft_id, name, blob_key, status, entries) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
				d.ID, a.Name, a.key, string(unpacking), a.Entries).Scan(&a.ID); err != nil {
				return err
			}
			return s.enqueueTx(ctx, tx, unpackArgs{Archive: a.ID})
		})
	})
	if err != nil {
		return nil, fmt.Errorf("receiving an archive: %w", err)
	}
	return a, nil
}

var errTooLarge = fault.OfField("files", fmt.Sprintf("The ZIP is larger than %d GB. Split it into several ZIPs.", MaxArchive>>30))

// limited reads from r. It returns errTooLarge if r has more than left bytes.
type limited struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// checkArchive checks the directory of an archive and returns the number of its entries. The error
// is fault.Invalid if the archive is damaged, has too many entries, or unpacks to more than
// maxUnpacked bytes.
func (s *Service) checkArchive(ctx context.Context, key string) (entries int, err error) {
	o, err := s.blobs.Open(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("opening an archive: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	archive, err := zip.NewReader(o, o.Size())
	if err != nil {
		return 0, fault.OfField("files", "The ZIP is damaged or incomplete. Create it again and upload it again.")
	}
	if len(archive.File) > MaxFiles {
		return 0, fault.OfField("files", fmt.Sprintf("The ZIP has more than %d files. Split it into several ZIPs.", MaxFiles))
	}
	var total uint64
	for _, f := range archive.File {
		if total += f.UncompressedSize64; f.UncompressedSize64 > maxUnpacked || total > maxUnpacked {
			return 0, fault.OfField("files", fmt.Sprintf("The ZIP unpacks to more than %d GB. Split it into several ZIPs.", maxUnpacked>>30))
		}
	}
	return len(archive.File), nil
}

// Archives returns the archives of a draft.
func (s *Service) Archives(ctx context.Context, d *Draft) (list []*Archive, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+archiveColumns+` FROM bulk_import_archives WHERE draft_id = $1 ORDER BY id`, d.ID)
	if err != nil {
		return nil, fmt.Errorf("reading archives: %w", err)
	}
	if list, err = db.Collect(rows, func(rows *sql.Rows) (*Archive, error) { return scanArchive(rows) }); err != nil {
		return nil, fmt.Errorf("reading archives: %w", err)
	}
	return list, nil
}

// unpackArgs is the job that unpacks an archive.
type unpackArgs struct {
	Archive int64 `json:"archive"`
}

// Kind returns the kind of the job.
func (unpackArgs) Kind() string { return "bulk_import_unpack" }

type unpackWorker struct {
	river.WorkerDefaults[unpackArgs]

	service *Service
}

// Work unpacks an archive for a limited time, from the first entry that is not processed. Each entry is
// stored in one transaction with the place of the next entry.
func (w *unpackWorker) Work(ctx context.Context, j *river.Job[unpackArgs]) error {
	done, err := w.service.unpack(ctx, j.Args.Archive, workTime)
	wait, waits := blob.Wait(err)
	switch {
	case ctx.Err() != nil:
		return river.JobSnooze(0)
	case waits:
		// Wait until the store has room or is available; the attempt does not count.
		return river.JobSnooze(wait)
	case err != nil:
		return err
	case !done:
		return river.JobSnooze(0)
	}
	return nil
}

// unpack unpacks an archive to its end, or until maxTime has passed. It reports whether the archive
// is completely unpacked or no longer exists.
func (s *Service) unpack(ctx context.Context, id int64, maxTime time.Duration) (done bool, err error) {
	a, err := scanArchive(s.db.QueryRowContext(ctx, `SELECT `+archiveColumns+` FROM bulk_import_archives WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil // the draft was deleted
	}
	if err != nil {
		return false, fmt.Errorf("reading an archive: %w", err)
	}
	if a.Done {
		return true, nil
	}
	d, inst, err := s.draftOf(ctx, a.draftID)
	if err != nil {
		return false, err
	}
	o, err := s.blobs.Open(ctx, a.key)
	if err != nil {
		return false, fmt.Errorf("opening an archive: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	archive, err := zip.NewReader(o, o.Size())
	if err != nil {
		return false, fmt.Errorf("opening an archive: %w", err)
	}
	u := &unpacker{service: s, archive: a, draft: d, inst: inst}
	for start := s.now(); a.Place < len(archive.File); {
		if s.now().Sub(start) > maxTime {
			return false, nil
		}
		if err := u.entry(ctx, archive.File[a.Place]); err != nil {
			return false, err
		}
	}
	return true, s.finish(ctx, a)
}

// finish stores that an archive is unpacked. The file remains, because a backup of an earlier state
// of the database may refer to it. Package deletion deletes the file later.
func (s *Service) finish(ctx context.Context, a *Archive) error {
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE bulk_import_archives SET status = $1 WHERE id = $2`, string(unpacked), a.ID)
		return err
	}); err != nil {
		return fmt.Errorf("finishing an archive: %w", err)
	}
	return nil
}

// draftOf returns a draft and its institution, for a job.
func (s *Service) draftOf(ctx context.Context, id int64) (*Draft, *account.Institution, error) {
	d, err := scanDraft(s.db.QueryRowContext(ctx, `SELECT `+draftColumns+` FROM bulk_import_drafts WHERE id = $1`, id))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a bulk upload: %w", err)
	}
	if err := s.loadTemplate(ctx, d); err != nil {
		return nil, nil, err
	}
	inst, err := account.InstitutionByID(ctx, s.db, d.InstitutionID)
	return d, inst, err
}

// unpacker unpacks one archive.
type unpacker struct {
	service *Service
	archive *Archive
	draft   *Draft
	inst    *account.Institution
}

// entry unpacks the next entry, and records a problem of the entry. An error means that the vault
// failed, or that another process is unpacking the archive.
func (u *unpacker) entry(ctx context.Context, f *zip.File) error {
	name, isFile := entryName(f)
	if !isFile {
		return u.skip(ctx, "")
	}
	shown, problem := cleanPath(name)
	if problem != "" {
		return u.skip(ctx, fmt.Sprintf("%q: %s", sheet.Excerpt(name, maxPath), problem))
	}
	mode := f.Mode()
	switch {
	case !mode.IsRegular():
		return u.skip(ctx, shown+": This is a link or a device, not a file.")
	case f.Flags&1 != 0:
		return u.refuse(ctx, shown, "The file is protected by a password of the ZIP. Create the ZIP without a password.")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return u.refuse(ctx, shown, "The ZIP compresses this file in a way that is not supported. Create the ZIP with the standard compression.")
	case f.UncompressedSize64 > cert.MaxFile:
		return u.refuse(ctx, shown, fmt.Sprintf("The file is larger than %d MB.", cert.MaxFile>>20))
	case f.UncompressedSize64 > smallFile && f.UncompressedSize64/maxRatio > f.CompressedSize64:
		return u.refuse(ctx, shown, "The unpacked file would be more than a hundred times as large as the compressed file.")
	case strings.EqualFold(path.Ext(shown), ".zip"):
		return u.refuse(ctx, shown, "A ZIP within the ZIP is not opened. Put its files into the outer ZIP.")
	}
	var exists bool
	if err := u.service.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM bulk_import_files WHERE draft_id = $1 AND path = $2 AND archive_id = $3)`,
		u.draft.ID, shown, u.archive.ID).Scan(&exists); err != nil {
		return fmt.Errorf("finding a file: %w", err)
	}
	if exists {
		return u.skip(ctx, shown+": The ZIP has this file twice; the first is used.")
	}
	content, err := f.Open()
	if err != nil {
		return u.refuse(ctx, shown, damagedEntry)
	}
	defer content.Close()
	err = u.service.receive(ctx, u.inst, u.draft, shown, content, func(ctx context.Context, tx *db.Tx, got *File) error {
		return u.storeTx(ctx, tx, got, "")
	})
	if isDamage(err) {
		return u.refuse(ctx, shown, damagedEntry)
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		// The institution has reached its quota, or the draft has too many files or was deleted.
		why := e.Message
		if len(e.Fields) > 0 {
			why = e.Fields[0].Messages[0]
		}
		if e.Kind == fault.Unavailable {
			return err
		}
		return u.skip(ctx, shown+": "+why)
	}
	return err
}

const damagedEntry = "The file is damaged in the ZIP. Create the ZIP again."

// isDamage reports whether an error is due to the content of an archive. Any other error in reading
// an archive is an error of the store.
func isDamage(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF)
}

// refuse records that a file was refused, and the reason.
func (u *unpacker) refuse(ctx context.Context, name, why string) error {
	return u.service.db.Tx(ctx, func(tx *db.Tx) error { return u.storeTx(ctx, tx, &File{Path: name, Problem: why}, "") })
}

// skip skips an entry. It adds a notice unless why is "".
func (u *unpacker) skip(ctx context.Context, why string) error {
	return u.service.db.Tx(ctx, func(tx *db.Tx) error { return u.storeTx(ctx, tx, nil, why) })
}

// storeTx stores the place of the next entry. It also stores f unless f is nil, and adds notice unless
// notice is "". If another job has already processed the entry, the error is errConcurrent.
func (u *unpacker) storeTx(ctx context.Context, tx *db.Tx, f *File, notice string) error {
	a := u.archive
	notices := a.Notices
	if notice != "" && len(notices) < maxNotices {
		notices = append(slices.Clone(notices), notice)
	}
	text, err := encode(notices)
	if err != nil {
		return err
	}
	var place int
	err = tx.QueryRowContext(ctx, `UPDATE bulk_import_archives SET place = place + 1, notices = $1 WHERE id = $2 AND place = $3 RETURNING place`,
		text, a.ID, a.Place).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		return errConcurrent
	}
	if err != nil {
		return err
	}
	if f != nil {
		if err := u.service.changeTx(ctx, tx, u.draft); err != nil {
			return err
		}
		if err := u.service.putFileTx(ctx, tx, u.draft, a.ID, f); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { a.Place, a.Notices = place, notices })
	return nil
}

var errConcurrent = errors.New("another process is unpacking the archive")

// isSystemFile reports whether a file was added to an archive by an operating system or a program.
func isSystemFile(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(name, "__MACOSX/") || strings.HasPrefix(base, "._") ||
		slices.Contains([]string{".DS_Store", "Thumbs.db", "desktop.ini"}, base) || strings.HasPrefix(base, "~$")
}
