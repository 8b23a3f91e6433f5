package cert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/certvault/certvault/internal/blob"
	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/seal"
)

// receiveFrom receives a file without creating a record.
func (v *vault) receiveFrom(ctx context.Context, name string, r io.Reader) (f *File, err error) {
	err = v.Receive(ctx, v.inst.UUID, NewIncoming(name, r), func(got *File) error {
		f = got
		return nil
	})
	return f, err
}

func TestReceiveReturnsDigestAndState(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	content := samplePDF("a diploma", 100_001)
	f, err := v.receiveFrom(t.Context(), "diploma.PDF", iotest.OneByteReader(bytes.NewReader(content)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Size != int64(len(content)) || f.SHA256 != sha256.Sum256(content) || f.Type != seal.PDF || f.Name != "diploma.PDF" {
		t.Errorf("file = %+v, want the size, digest, type and name of the content", f)
	}
	o, err := v.folder.Open(t.Context(), f.Key)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := io.ReadAll(io.NewSectionReader(o, 0, o.Size()))
	if err := errors.Join(err, o.Close()); err != nil || !bytes.Equal(stored, content) {
		t.Errorf("the stored file has %d bytes, err = %v, want the content", len(stored), err)
	}
	// The hash state is sufficient to compute the digest of a longer file that begins with this content.
	hash := sha256.New()
	state, ok := hash.(encoding.BinaryUnmarshaler)
	if !ok {
		t.Fatal("the hash is not an encoding.BinaryUnmarshaler")
	}
	if err := state.UnmarshalBinary(f.State); err != nil {
		t.Fatal(err)
	}
	hash.Write([]byte(tailText))
	if want := sha256.Sum256(append(content, tailText...)); [32]byte(hash.Sum(nil)) != want {
		t.Error("the digest computed from the state is not the digest of the longer file")
	}
	if !strings.HasPrefix(f.Key, v.inst.UUID+"/") {
		t.Errorf("key = %s, want a key in the institution's folder", f.Key)
	}
}

func TestReceiveRefusesFileOverLimit(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	content := samplePDF("a diploma", 20_971_520)
	if len(content) != 20_971_520 {
		t.Fatalf("the sample has %d bytes, want 20971520", len(content))
	}
	f, err := v.receiveFrom(t.Context(), "diploma.pdf", bytes.NewReader(content))
	if err != nil || f.Size != 20_971_520 || f.SHA256 != sha256.Sum256(content) {
		t.Fatalf("file of 20 MB: file = %+v, err = %v, want its size and digest", f, err)
	}
	if err := v.folder.Delete(t.Context(), f.Key); err != nil {
		t.Fatal(err)
	}
	_, err = v.receiveFrom(t.Context(), "diploma.pdf", bytes.NewReader(append(content, '\n')))
	if refused, ok := errors.AsType[*seal.Refusal](err); !ok || refused.Code != "too_large" || !strings.Contains(refused.Reason, "20971520") {
		t.Errorf("file of 20 MB and one byte: err = %v, want too_large", err)
	}
	// Receive stops reading one byte after the limit, because a request may be endless.
	endless := &counted{r: repeating{}}
	if _, err := v.receiveFrom(t.Context(), "diploma.pdf", endless); err == nil || endless.n > MaxFile+1 {
		t.Errorf("read %d bytes of an endless file, err = %v, want at most MaxFile + 1 bytes and an error", endless.n, err)
	}
	if keys := v.keys(); len(keys) != 0 {
		t.Errorf("stored files = %v, want none", keys)
	}
}

type repeating struct{}

func (repeating) Read(p []byte) (int, error) { return len(p), nil }

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func TestReceiveDeletesRefusedFile(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""))
	content := samplePDF("a diploma", 200_000)
	broken := errors.New("connection reset")
	for _, tc := range []struct {
		name, file string
		r          io.Reader
		refused    bool
	}{
		{"a reader that fails", "a.pdf", io.MultiReader(bytes.NewReader(content[:150_000]), iotest.ErrReader(broken)), false},
		{"a reader that fails immediately", "a.pdf", iotest.ErrReader(broken), false},
		{"empty file", "a.pdf", strings.NewReader(""), true},
		{"not a PDF", "a.pdf", strings.NewReader("hello"), true},
		{"truncated PDF", "a.pdf", bytes.NewReader(content[:1000]), true},
		{"a PDF with another extension", "a.png", bytes.NewReader(content), true},
		{"no extension", "pdf", bytes.NewReader(content), true},
		{"a program", "a.exe", strings.NewReader("MZ"), true},
	} {
		f, err := v.receiveFrom(t.Context(), tc.file, tc.r)
		if _, refused := errors.AsType[*seal.Refusal](err); refused != tc.refused || err == nil || f != nil && !tc.refused {
			t.Errorf("%s: file = %v, err = %v, want refused %t", tc.name, f, err, tc.refused)
		}
		if !tc.refused && !errors.Is(err, broken) {
			t.Errorf("%s: err = %v, want the error of the reader", tc.name, err)
		}
		if keys := v.keys(); len(keys) != 0 {
			t.Errorf("%s: stored files = %v, want none", tc.name, keys)
		}
	}
}

// Receive deletes the file even if the client disconnects, which cancels the context of the request.
func TestReceiveDeletesFileAfterDisconnect(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Blobs = contextStore{c.Blobs} })
	ctx, cancel := context.WithCancel(t.Context())
	content := samplePDF("a diploma", 0)
	interrupted := io.MultiReader(bytes.NewReader(content), readerFunc(func([]byte) (int, error) { cancel(); return 0, io.EOF }))
	if _, err := v.receiveFrom(ctx, "a.pdf", interrupted); !errors.Is(err, context.Canceled) {
		t.Errorf("Receive after the client disconnected: err = %v, want context.Canceled", err)
	}
	if keys := v.keys(); len(keys) != 0 {
		t.Errorf("stored files = %v, want none", keys)
	}
}

// contextStore is a store whose Delete fails if the context has ended, like a store on the network.
type contextStore struct{ blob.Store }

func (s contextStore) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// fullStore has no space left.
type fullStore struct{ blob.Store }

func (fullStore) Put(context.Context, string, io.Reader) (int64, error) { return 0, blob.ErrFull }

func TestReceiveIntoFullStore(t *testing.T) {
	t.Parallel()
	v := newVault(t, dbtest.Open(t, t.TempDir(), ""), func(c *Config) { c.Blobs = fullStore{c.Blobs} })
	_, err := v.receiveFrom(t.Context(), "a.pdf", bytes.NewReader(samplePDF("x", 0)))
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Unavailable || e.RetryAfter <= 0 {
		t.Errorf("Receive into a full store: err = %v, want Unavailable with RetryAfter", err)
	}
}
