package cert

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// largeFile is the size in bytes above which the digest of a file is not computed again while
	// the version of the stored file is unchanged. Computing the digest takes about a millisecond for
	// a smaller file, and up to 20 ms for the largest file.
	largeFile = 1 << 20
	// maxIntact is the maximum number of entries of intactFiles. That many entries need about 1 MB of
	// memory. If the map is full, all entries are removed before the next one is added.
	maxIntact = 10_000
)

// errDiffers is the error for a stored file that is missing, or whose size or digest differs.
var errDiffers = errors.New("a stored file is missing or differs from what was stored")

// damagedMessage is the message for a caller who requested a damaged file.
const damagedMessage = "The stored file is damaged or missing, so it was not sent. The operator of this vault has been alerted."

// intactFile identifies a Content by the versions of its stored files and by its digest.
type intactFile struct {
	versions [2]blob.Version
	sum      [sha256.Size]byte
}

// intactFiles is a set of large files that had the correct digest when they were read.
type intactFiles struct {
	mu    sync.Mutex
	known map[intactFile]bool
}

func (i *intactFiles) has(f intactFile) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[f]
}

func (i *intactFiles) add(f intactFile) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil || len(i.known) >= maxIntact {
		i.known = map[intactFile]bool{}
	}
	i.known[f] = true
}

// compare returns errDiffers if the content does not have the given size and digest. It reads the
// whole content, unless the content is large and an earlier call found this digest for the same
// versions of the files.
func (s *Service) compare(content *Content, size int64, sum [sha256.Size]byte) error {
	if size <= largeFile || content.Size() != size {
		return compareWhole(content, size, sum)
	}
	f := intactFile{sum: sum}
	for i, o := range content.parts {
		var err error
		if f.versions[i], err = o.Version(); err != nil {
			return err
		}
	}
	if s.intact.has(f) {
		return nil
	}
	if err := compareWhole(content, size, sum); err != nil {
		return err
	}
	s.intact.add(f)
	return nil
}

// compareWhole is like compare, but always reads the whole content.
func compareWhole(content *Content, size int64, sum [sha256.Size]byte) error {
	if content.Size() != size {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errDiffers, content.Size(), size)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(content, 0, size)); err != nil {
		return fmt.Errorf("reading a file: %w", err)
	}
	if [sha256.Size]byte(hash.Sum(nil)) != sum {
		return fmt.Errorf("%w: it has another digest", errDiffers)
	}
	return nil
}

// isDamage reports whether an error means that a stored file is damaged or missing: the file differs,
// does not exist, or cannot be read because of a disk error.
func isDamage(err error) bool {
	return errors.Is(err, errDiffers) || errors.Is(err, blob.ErrNotFound) || errors.Is(err, syscall.EIO)
}

// check returns the content of a stored file if it has the size and the digest of the record. If
// the file is damaged or missing, check closes the content, stores that the check with the given
// name failed, and returns a fault of kind Damaged. Other errors are returned without this fault. err
// is the error of opening the content.
func (s *Service) check(ctx context.Context, c *Certificate, name string, content *Content, err error, size int64, sum [sha256.Size]byte) (*Content, error) {
	if err == nil {
		if err = s.compare(content, size, sum); err == nil {
			return content, nil
		}
		err = errors.Join(err, content.Close())
	}
	if !isDamage(err) {
		return nil, err
	}
	err = fmt.Errorf("the check %q of certificate %s: %w", name, c.UUID, err)
	return nil, fault.Wrap(fault.Damaged, damagedMessage, errors.Join(err, s.alarm(context.WithoutCancel(ctx), c, name, err)))
}

// alarm stores and logs that a check failed. It does nothing if the stored result is already a failure,
// or if the certificate or its files were deleted.
func (s *Service) alarm(ctx context.Context, c *Certificate, name string, cause error) error {
	known := true
	err := s.db.Tx(ctx, func(tx *db.Tx) error {
		now, err := byUUID(ctx, tx, c.UUID)
		if fault.Is(err, fault.NotFound) || err == nil && now.FilesDeletedAt != nil {
			return nil // the certificate or its files were deleted in the meantime
		}
		if err != nil {
			return err
		}
		var last Result
		err = tx.QueryRowContext(ctx, `SELECT result FROM certificate_checks WHERE certificate_id = $1 AND name = $2`, c.ID, name).Scan(&last)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if known = last == FailedCheck; known {
			return nil
		}
		return recordCheckTx(ctx, tx, c.ID, Check{Name: name, Result: FailedCheck}, db.Micros(s.now()))
	})
	if err != nil {
		err = fmt.Errorf("storing that a check failed: %w", err)
	}
	if err != nil || !known {
		s.logAlarm(ctx, c, cause)
	}
	return err
}

// logAlarm logs that a stored file is damaged or could not be checked.
func (s *Service) logAlarm(ctx context.Context, c *Certificate, cause error) {
	s.log.ErrorContext(ctx, "ALARM: a stored file has changed or could not be checked", slog.String("certificate", c.UUID), slog.Any("error", cause))
}
