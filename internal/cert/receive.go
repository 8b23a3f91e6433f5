package cert

import (
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/seal"
)

const (
	// MaxFile is the maximum size of an uploaded file in bytes: 20 MB.
	MaxFile = 20 << 20
	// maxChecks is the number of files that are checked at a time. The check of a file uses at most
	// about 60 MB of memory, even if the file reaches all limits of package pdf.
	maxChecks = 2
	// maxFileName is the maximum length of a file's name in code points.
	maxFileName = 255
)

// Incoming is a reader of a file that the vault receives. It counts and hashes the bytes that are read.
type Incoming struct {
	name string
	r    io.Reader
	hash hash.Hash
	size int64
}

// NewIncoming returns an Incoming that reads from r.
func NewIncoming(name string, r io.Reader) *Incoming {
	return &Incoming{name: name, r: r, hash: sha256.New()}
}

var errTooLarge = errors.New("the file is too large")

// Read implements io.Reader. It returns an error if the file is larger than MaxFile.
func (in *Incoming) Read(p []byte) (int, error) {
	n, err := in.r.Read(p[:min(int64(len(p)), MaxFile+1-in.size)])
	in.hash.Write(p[:n])
	if in.size += int64(n); in.size > MaxFile {
		return 0, errTooLarge
	}
	return n, err
}

// Drain reads, counts and hashes the rest of a file, even if the file is larger than MaxFile.
func (in *Incoming) Drain() error {
	n, err := io.Copy(in.hash, in.r)
	in.size += n
	return err
}

// Size returns the number of bytes read so far.
func (in *Incoming) Size() int64 { return in.size }

// SHA256 returns the digest of the bytes read so far.
func (in *Incoming) SHA256() (sum [sha256.Size]byte) {
	in.hash.Sum(sum[:0])
	return sum
}

// Receive stores a file of an institution and calls use, which creates the record that refers to
// the file. The whole file is never in memory: Receive hashes the file while reading it, and checks
// the stored file.
//
// If a file can never be sealed, the error wraps a *seal.Refusal, the file is deleted, and use is
// not called. If use returns an error of a kind other than fault.Internal, the file is deleted; see
// blob.Receive. If the store is full, the error is a fault of kind Unavailable.
func (s *Service) Receive(ctx context.Context, institutionUUID string, in *Incoming, use func(*File) error) error {
	return s.receive(ctx, institutionUUID, "original", in, use)
}

// ReceiveAttachment is like Receive, for an attachment of an application.
func (s *Service) ReceiveAttachment(ctx context.Context, institutionUUID string, in *Incoming, use func(*File) error) error {
	return s.receive(ctx, institutionUUID, AttachmentKind, in, use)
}

func (s *Service) receive(ctx context.Context, institutionUUID, kind string, in *Incoming, use func(*File) error) error {
	f := &File{Name: fileName(in.name), Key: blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String(), kind)}
	err := blob.Receive(ctx, s.blobs, f.Key, in, func(size int64) (err error) {
		f.Size, f.SHA256 = size, in.SHA256()
		state, ok := in.hash.(encoding.BinaryMarshaler)
		if !ok {
			return errors.New("the state of the hash cannot be encoded")
		}
		if f.State, err = state.MarshalBinary(); err != nil {
			return fmt.Errorf("encoding the state of the hash: %w", err)
		}
		return s.inspect(ctx, institutionUUID, f)
	}, func() error { return use(f) })
	if errors.Is(err, errTooLarge) {
		return errLarge
	}
	if err != nil {
		return fmt.Errorf("receiving a file: %w", err)
	}
	return nil
}

// inspect sets the type and the notices of a stored file, and checks that the file can be sealed.
func (s *Service) inspect(ctx context.Context, institutionUUID string, f *File) (err error) {
	// Open may wait for the network, so it is called before Acquire.
	o, err := s.blobs.Open(ctx, f.Key)
	if err != nil {
		return fmt.Errorf("checking a file: %w", err)
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if err := s.checking.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting to check a file: %w", err)
	}
	defer s.checking.Release(1)
	if f.Type, err = seal.Sniff(f.Name, o, f.Size); err != nil {
		return fmt.Errorf("checking a file: %w", err)
	}
	report, err := seal.Check(ctx, original(f, o))
	if err == nil && report.HasActiveContent {
		err = s.checkActiveContent(ctx, institutionUUID)
	}
	if err != nil {
		return fmt.Errorf("checking a file: %w", err)
	}
	f.Notices = report.Notices
	return nil
}

// checkActiveContent returns seal.ErrActive if the institution refuses files with active content.
func (s *Service) checkActiveContent(ctx context.Context, institutionUUID string) error {
	refuses, err := account.RefusesActive(ctx, s.db, institutionUUID)
	if err == nil && refuses {
		err = seal.ErrActive
	}
	return err
}

// errLarge is the error for a file of more than MaxFile bytes.
var errLarge error = &seal.Refusal{Code: "too_large", Reason: fmt.Sprintf("The file is larger than %d MB (%d bytes).", MaxFile>>20, MaxFile)}

// RefusedFile returns the problem of a file that Receive refused, or nil for any other error.
func RefusedFile(err error) *Problem {
	r, ok := errors.AsType[*seal.Refusal](err)
	if !ok {
		return nil
	}
	p := &Problem{Field: FieldFile, Code: CodeRefusedFile, Detail: r.Reason}
	if errors.Is(err, errLarge) {
		p.Limit = MaxFile
	}
	return p
}

func original(f *File, r io.ReaderAt) seal.Original {
	return seal.Original{Name: f.Name, Type: f.Type, R: r, Size: f.Size, SHA256: f.SHA256, State: f.State}
}

// ArchiveKey returns a new key for an archive of an institution.
func ArchiveKey(institutionUUID string) string {
	return blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String(), ArchiveKind)
}

// BaseKey returns a new key for the base of an institution's template.
func BaseKey(institutionUUID string) string {
	return blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String(), BaseKind)
}

// NewKey returns a new key for a file of an institution. kind is a kind such as DesignKind.
func NewKey(institutionUUID, kind string) string {
	return blobKey(institutionUUID, uuid.Must(uuid.NewV7()).String(), kind)
}

// blobKey returns the key of a blob: the institution's folder, one of 256 subfolders, and the name.
// The subfolders limit the number of files in each folder.
func blobKey(institutionUUID, id, kind string) string {
	return institutionUUID + "/" + id[len(id)-2:] + "/" + id + "." + kind
}
