package cert

import (
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// MaxFile is the largest file in bytes: 20 MB.
	MaxFile = 20 << 20
	// fullRetry is the delay after which an upload may be tried again if the store is full.
	fullRetry = time.Minute
	// maxFileName bounds a file's name in code points.
	maxFileName = 255
)

// Receive takes a file from the wire to the store without ever holding it
// whole: it is hashed as it goes by, then looked at where it lies. A file that
// can never be sealed is a *seal.Refusal and is not stored. The caller must
// Discard a file that no certificate comes to refer to.
func (s *Service) Receive(ctx context.Context, institutionUUID, name string, r io.Reader) (_ *File, err error) {
	hash := sha256.New()
	limited := &limitReader{r: r, left: MaxFile}
	f := &File{Name: fileName(name), Key: blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String(), "original")}
	f.Size, err = s.blobs.Put(ctx, f.Key, io.TeeReader(limited, hash))
	if errors.Is(err, errTooLarge) {
		return nil, errLarge
	}
	if errors.Is(err, blob.ErrFull) {
		return nil, &fault.Error{Kind: fault.Unavailable, Message: "The vault has no room for more files at the moment.", RetryAfter: fullRetry, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("receiving a file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Discard(ctx, f))
		}
	}()
	hash.Sum(f.SHA256[:0])
	state, ok := hash.(encoding.BinaryMarshaler)
	if !ok {
		return nil, errors.New("the hash cannot tell its state")
	}
	if f.State, err = state.MarshalBinary(); err != nil {
		return nil, fmt.Errorf("keeping the hash's state: %w", err)
	}
	return f, s.inspect(ctx, institutionUUID, f)
}

// inspect finds out what the file is and whether it can be sealed.
func (s *Service) inspect(ctx context.Context, institutionUUID string, f *File) (err error) {
	o, err := s.blobs.Open(ctx, f.Key)
	if err != nil {
		return fmt.Errorf("looking at a file: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if f.Type, err = seal.Sniff(f.Name, o, f.Size); err != nil {
		return fmt.Errorf("inspecting a file: %w", err)
	}
	report, err := seal.Check(ctx, original(f, o))
	if err == nil && report.Active {
		err = s.acceptActive(ctx, institutionUUID)
	}
	if err != nil {
		return fmt.Errorf("inspecting a file: %w", err)
	}
	f.Notices = report.Notices
	return nil
}

// acceptActive asks whether an institution takes files with active content; few
// files are such, so it is asked only then.
func (s *Service) acceptActive(ctx context.Context, institutionUUID string) error {
	var refuses bool
	if err := s.db.QueryRowContext(ctx, `SELECT refuse_active FROM institutions WHERE uuid = $1`, institutionUUID).Scan(&refuses); err != nil {
		return fmt.Errorf("reading the policy of an institution: %w", err)
	}
	if refuses {
		return seal.ErrActive
	}
	return nil
}

// errLarge refuses a file of more than MaxFile bytes.
var errLarge error = &seal.Refusal{Code: "too_large", Reason: fmt.Sprintf("The file is larger than %d MB (%d bytes).", MaxFile>>20, MaxFile)}

// RefusedFile returns the problem of a file that Receive refused, nil for another error.
func RefusedFile(err error) *Problem {
	r, ok := errors.AsType[*seal.Refusal](err)
	if !ok {
		return nil
	}
	return &Problem{Field: FieldFile, Code: CodeRefusedFile, Detail: r.Reason}
}

// Discard removes a received file that nothing refers to.
func (s *Service) Discard(ctx context.Context, f *File) error {
	// The client may be gone, and its context with it.
	if err := s.blobs.Delete(context.WithoutCancel(ctx), f.Key); err != nil {
		return fmt.Errorf("discarding a file: %w", err)
	}
	return nil
}

func original(f *File, r io.ReaderAt) seal.Original {
	return seal.Original{Name: f.Name, Type: f.Type, R: r, Size: f.Size, SHA256: f.SHA256, State: f.State}
}

// ArchiveKey makes the key of an archive of an institution.
func ArchiveKey(institutionUUID string) string {
	return blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String(), ArchiveKind)
}

// blobKey is the key of a blob: the institution's own folder, then one of 256,
// so that no folder grows without bound.
func blobKey(institutionUUID, id, kind string) string {
	return institutionUUID + "/" + id[len(id)-2:] + "/" + id + "." + kind
}

var errTooLarge = errors.New("the file is too large")

// limitReader fails, where io.LimitReader would end, when there is more.
type limitReader struct {
	r    io.Reader
	left int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.r.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
