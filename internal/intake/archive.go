package intake

import (
	"archive/zip"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
)

const (
	// MaxArchive is the largest archive in bytes: 2 GB.
	MaxArchive = 2 << 30
	// maxUnpacked bounds what all files of an archive say they unpack to.
	maxUnpacked = 20 << 30
	// maxRatio is how much smaller than itself a file may be packed, from smallFile
	// on. PDFs and pictures are packed themselves and hardly get smaller.
	maxRatio  = 100
	smallFile = 1 << 20
	// maxNotices bounds what is said of one archive.
	maxNotices = 50
)

// archiveStatus is how far an archive is.
type archiveStatus string

const (
	unpacking archiveStatus = "unpacking"
	unpacked  archiveStatus = "unpacked"
)

// Archive is a ZIP of files on its way into a draft.
type Archive struct {
	ID   int64
	Name string
	// Entries are what it has, and Place is how many of them were looked at.
	Entries, Place int
	Done           bool
	// Notices are what was passed over, and why.
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
	return a, readInto(notices, &a.Notices)
}

// AddArchive takes a ZIP into the store and has it unpacked into a draft. What is
// wrong with it as a whole is told at once.
func (s *Service) AddArchive(ctx context.Context, inst *account.Institution, d *Draft, name string, r io.Reader) (_ *Archive, err error) {
	if err := s.batches.Room(ctx, inst.ID); err != nil {
		return nil, err
	}
	a := &Archive{Name: listName(name), key: cert.ArchiveKey(inst.UUID), Notices: []string{}}
	body := &reader{r: r}
	_, err = s.blobs.Put(ctx, a.key, &limited{r: body, left: MaxArchive})
	switch {
	case errors.Is(err, errTooLarge):
		return nil, fault.OfField("files", fmt.Sprintf("The ZIP is larger than %d GB. Make several of it.", MaxArchive>>30))
	case errors.Is(err, blob.ErrFull):
		return nil, &fault.Error{Kind: fault.Unavailable, Message: "The vault has no room for more files at the moment.", RetryAfter: time.Minute, Err: err}
	case err != nil && body.err != nil:
		return nil, &SourceError{Err: body.err}
	case err != nil:
		return nil, fmt.Errorf("receiving an archive: %w", err)
	}
	defer func() {
		if err != nil && fault.KindOf(err) != fault.Internal {
			err = errors.Join(err, s.blobs.Delete(context.WithoutCancel(ctx), a.key))
		}
	}()
	if a.Entries, err = s.checkArchive(ctx, a.key); err != nil {
		return nil, err
	}
	err = s.change(ctx, d, "adding an archive", func(tx *db.Tx) error {
		if err := tx.QueryRowContext(ctx, `
			INSERT INTO intake_archives (draft_id, name, blob_key, status, entries) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
			d.ID, a.Name, a.key, string(unpacking), a.Entries).Scan(&a.ID); err != nil {
			return err
		}
		return s.enqueueTx(ctx, tx, unpackArgs{Archive: a.ID})
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

var errTooLarge = errors.New("the archive is too large")

// limited fails, where io.LimitReader would end, when there is more.
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

// checkArchive looks at what an archive says of itself and gives how many entries
// it has.
func (s *Service) checkArchive(ctx context.Context, key string) (entries int, err error) {
	o, err := s.blobs.Open(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("opening an archive: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	archive, err := zip.NewReader(o, o.Size())
	if err != nil {
		return 0, fault.OfField("files", "The ZIP is damaged or was not uploaded whole. Make it anew and upload it again.")
	}
	if len(archive.File) > MaxFiles {
		return 0, fault.OfField("files", fmt.Sprintf("The ZIP has more than %d files. Make several of it.", MaxFiles))
	}
	var total uint64
	for _, f := range archive.File {
		if total += f.UncompressedSize64; f.UncompressedSize64 > maxUnpacked || total > maxUnpacked {
			return 0, fault.OfField("files", fmt.Sprintf("The ZIP unpacks to more than %d GB. Make several of it.", maxUnpacked>>30))
		}
	}
	return len(archive.File), nil
}

// Archives gives the archives of a draft.
func (s *Service) Archives(ctx context.Context, d *Draft) (list []*Archive, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+archiveColumns+` FROM intake_archives WHERE draft_id = $1 ORDER BY id`, d.ID)
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

// Kind names the job.
func (unpackArgs) Kind() string { return "intake_unpack" }

type unpackWorker struct {
	river.WorkerDefaults[unpackArgs]

	service *Service
}

// Work unpacks for a while, from where the last one stopped: each entry is kept in
// one transaction with the place behind it.
func (w *unpackWorker) Work(ctx context.Context, j *river.Job[unpackArgs]) error {
	done, err := w.service.unpack(ctx, j.Args.Archive, workTime)
	switch {
	case ctx.Err() != nil:
		return river.JobSnooze(0)
	case err != nil:
		return err
	case !done:
		return river.JobSnooze(0)
	}
	return nil
}

// unpack takes files out of an archive until all are looked at, or the time is
// over.
func (s *Service) unpack(ctx context.Context, id int64, atMost time.Duration) (done bool, err error) {
	a, err := scanArchive(s.db.QueryRowContext(ctx, `SELECT `+archiveColumns+` FROM intake_archives WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil // its draft was discarded
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
	for began := s.now(); a.Place < len(archive.File); {
		if s.now().Sub(began) > atMost {
			return false, nil
		}
		if err := u.entry(ctx, archive.File[a.Place]); err != nil {
			return false, err
		}
	}
	return true, s.finish(ctx, a)
}

func (s *Service) finish(ctx context.Context, a *Archive) error {
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE intake_archives SET status = $1 WHERE id = $2`, string(unpacked), a.ID)
		return err
	}); err != nil {
		return fmt.Errorf("ending an archive: %w", err)
	}
	if err := s.blobs.Delete(ctx, a.key); err != nil {
		s.log.WarnContext(ctx, "an archive that was unpacked stays until the sweep of files", slog.Any("error", err))
	}
	return nil
}

// draftOf gives a draft and its institution to a job.
func (s *Service) draftOf(ctx context.Context, id int64) (*Draft, *account.Institution, error) {
	d, err := scanDraft(s.db.QueryRowContext(ctx, `SELECT `+draftColumns+` FROM intake_drafts WHERE id = $1`, id))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a bulk upload: %w", err)
	}
	inst, err := account.InstitutionByID(ctx, s.db, d.InstitutionID)
	return d, inst, err
}

// unpacker takes the entries of one archive.
type unpacker struct {
	service *Service
	archive *Archive
	draft   *Draft
	inst    *account.Institution
}

// entry takes the next entry. What is wrong with it is noted, and the next one
// follows; an error is a fault of ours.
func (u *unpacker) entry(ctx context.Context, f *zip.File) error {
	name, isFile := entryName(f)
	if !isFile {
		return u.skip(ctx, "")
	}
	shown, problem := cleanPath(name)
	if problem != "" {
		return u.skip(ctx, fmt.Sprintf("%q: %s", name, problem))
	}
	mode := f.Mode()
	switch {
	case !mode.IsRegular():
		return u.skip(ctx, shown+": This is a link or a device, not a file.")
	case f.Flags&1 != 0:
		return u.refuse(ctx, shown, "The file is protected by the ZIP's password. Make the ZIP without one.")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return u.refuse(ctx, shown, "The ZIP packs this file in a way that cannot be read. Make it with the standard compression.")
	case f.UncompressedSize64 > cert.MaxFile:
		return u.refuse(ctx, shown, fmt.Sprintf("The file is larger than %d MB.", cert.MaxFile>>20))
	case f.UncompressedSize64 > smallFile && f.UncompressedSize64/maxRatio > f.CompressedSize64:
		return u.refuse(ctx, shown, "The file unpacks to more than a hundred times its size; no diploma does.")
	case strings.EqualFold(path.Ext(shown), ".zip"):
		return u.refuse(ctx, shown, "A ZIP within the ZIP is not opened. Put its files into the outer one.")
	}
	var twice bool
	if err := u.service.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM intake_files WHERE draft_id = $1 AND path = $2 AND archive_id = $3)`,
		u.draft.ID, shown, u.archive.ID).Scan(&twice); err != nil {
		return fmt.Errorf("looking for a file: %w", err)
	}
	if twice {
		return u.skip(ctx, shown+": The ZIP has this file twice; the first was taken.")
	}
	content, err := f.Open()
	if err != nil {
		return u.refuse(ctx, shown, damagedEntry)
	}
	defer content.Close()
	err = u.service.receive(ctx, u.inst, u.draft, shown, content, func(ctx context.Context, tx *db.Tx, got *File) error {
		return u.keepTx(ctx, tx, got, "")
	})
	if _, ok := errors.AsType[*SourceError](err); ok {
		return u.refuse(ctx, shown, damagedEntry)
	}
	if e, ok := errors.AsType[*fault.Error](err); ok {
		// The institution has no room for more, or the draft is full or gone.
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

const damagedEntry = "The file is damaged in the ZIP. Make the ZIP anew."

// refuse keeps the name of a file that was not taken, and why.
func (u *unpacker) refuse(ctx context.Context, name, why string) error {
	return u.service.db.Tx(ctx, func(tx *db.Tx) error { return u.keepTx(ctx, tx, &File{Path: name, Problem: why}, "") })
}

// skip goes past an entry, and says why unless it goes without saying.
func (u *unpacker) skip(ctx context.Context, why string) error {
	return u.service.db.Tx(ctx, func(tx *db.Tx) error { return u.keepTx(ctx, tx, nil, why) })
}

// keepTx keeps a file, if there is one, and the place behind its entry. Of two
// that are at the same place, one keeps it.
func (u *unpacker) keepTx(ctx context.Context, tx *db.Tx, f *File, notice string) error {
	a := u.archive
	notices := a.Notices
	if notice != "" && len(notices) < maxNotices {
		notices = append(slices.Clone(notices), notice)
	}
	text, err := written(notices)
	if err != nil {
		return err
	}
	var place int
	err = tx.QueryRowContext(ctx, `UPDATE intake_archives SET place = place + 1, notices = $1 WHERE id = $2 AND place = $3 RETURNING place`,
		text, a.ID, a.Place).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		return errElsewhere
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

var errElsewhere = errors.New("the archive is being unpacked elsewhere")

// isRubbish tells what programs put into archives beside the files.
func isRubbish(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(name, "__MACOSX/") || strings.HasPrefix(base, "._") ||
		slices.Contains([]string{".DS_Store", "Thumbs.db", "desktop.ini"}, base) || strings.HasPrefix(base, "~$")
}
