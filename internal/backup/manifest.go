package backup

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

const (
	// manifestFormat identifies the format of a manifest and the layout of its backup.
	manifestFormat = "certvault backup 1"
	// maxLine is the maximum length of a line of a manifest in bytes, with its line feed.
	maxLine = 4096
)

// Header is the first line of a manifest. It describes the backup.
type Header struct {
	Format string `json:"format"`
	// Installation is the id of the installation.
	Installation string `json:"installation"`
	// CreatedAt is the time at which the backup began, just before the copy of the database. Later
	// changes may not be in the backup.
	CreatedAt time.Time `json:"created_at"`
	// Version is the version of the program that made the backup.
	Version string `json:"version"`
	// Schema is the number of the last migration of the database.
	Schema  int        `json:"schema"`
	Dialect db.Dialect `json:"dialect"`
	// FilesOnly means that the backup does not contain the database.
	FilesOnly bool `json:"files_only,omitempty"`
	// KeyCheck identifies the master key that signed the manifest, without revealing it.
	KeyCheck string `json:"key_check"`
}

// Entry is a line of a manifest. It describes a file of the backup.
type Entry struct {
	// Name is the name of the file, relative to the folder of the backup, with slashes.
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 Digest `json:"sha256,omitzero"`
	// Missing means that the file store did not contain the file when the backup was made. The backup
	// does not contain the file either, and Size and SHA256 are zero.
	Missing bool `json:"missing,omitempty"`
}

// trailer is the last line of a manifest.
type trailer struct {
	// Count is the number of entries.
	Count int `json:"count"`
	// MAC is the HMAC-SHA256 of all lines before the last line.
	MAC Digest `json:"mac"`
}

// Digest is a SHA-256 digest. Its text has 64 hexadecimal digits.
type Digest [sha256.Size]byte

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(d) {
		return fmt.Errorf("%q is not a SHA-256 digest", text)
	}
	copy(d[:], b)
	return nil
}

// keyCheck returns a text that identifies a master key.
func keyCheck(ring *keyring.Ring) (string, error) {
	mac, err := ring.MAC(keyring.Check, []byte("backup manifest"))
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(mac), nil
}

// manifestWriter writes the manifest of a backup.
type manifestWriter struct {
	file  *os.File
	out   *bufio.Writer
	mac   hash.Hash
	count int
}

// createManifest creates the manifest of the backup in dir and writes its header. It sets the
// format and the key check of the header.
func createManifest(dir string, ring *keyring.Ring, h Header) (_ *manifestWriter, err error) {
	h.Format = manifestFormat
	if h.KeyCheck, err = keyCheck(ring); err != nil {
		return nil, err
	}
	mac, err := ring.Hash(keyring.BackupManifest)
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, manifestName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("creating the manifest: %w", err)
	}
	w := &manifestWriter{file: file, out: bufio.NewWriterSize(file, 64<<10), mac: mac}
	if err := w.line(h); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// line writes a value as a line of JSON and adds the line to the MAC.
func (w *manifestWriter) line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	text = append(text, '\n')
	if len(text) > maxLine {
		return fmt.Errorf("writing the manifest: a line has %d bytes", len(text))
	}
	w.mac.Write(text)
	if _, err := w.out.Write(text); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// add writes an entry.
func (w *manifestWriter) add(e Entry) error {
	w.count++
	return w.line(e)
}

// finish writes the last line, syncs the manifest and closes it. All other files of the backup must
// already be durable, because the backup is complete after finish.
func (w *manifestWriter) finish() error {
	if err := w.line(trailer{Count: w.count, MAC: Digest(w.mac.Sum(nil))}); err != nil {
		return errors.Join(err, w.close())
	}
	if err := errors.Join(w.out.Flush(), w.file.Sync(), w.file.Close()); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// close closes a manifest that is not finished.
func (w *manifestWriter) close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("closing the manifest: %w", err)
	}
	return nil
}

// manifestReader reads and verifies the manifest of a backup.
type manifestReader struct {
	// Header is the first line.
	Header Header

	file  *os.File
	in    *bufio.Reader
	mac   hash.Hash
	count int
}

// ReadHeader returns the header of the backup in dir. It does not verify the signature. The error
// is ErrNoBackup if the folder contains no backup, ErrPartial if the backup is not complete, and
// ErrDamaged if the header is not valid.
func ReadHeader(dir string) (Header, error) {
	r, err := openManifestFile(dir)
	if err != nil {
		return Header{}, err
	}
	return r.Header, r.close()
}

// openManifest opens the manifest of the backup in dir. The errors are those of ReadHeader, and
// ErrWrongKey if the manifest was signed with another master key. The caller must read all entries
// with next and must not trust any of them before next has returned io.EOF.
func openManifest(dir string, ring *keyring.Ring) (*manifestReader, error) {
	r, err := openManifestFile(dir)
	if err != nil {
		return nil, err
	}
	check, err := keyCheck(ring)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	if r.Header.KeyCheck != check {
		return nil, errors.Join(fmt.Errorf("%w: %s", ErrWrongKey, dir), r.close())
	}
	if r.mac, err = ring.Hash(keyring.BackupManifest); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("reading the manifest: %w", err), r.close())
	}
	r.in.Reset(r.file)
	header, err := r.readLine()
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.mac.Write(header)
	return r, nil
}

// openManifestFile opens a manifest, checks that it is complete, and reads its header.
func openManifestFile(dir string) (_ *manifestReader, err error) {
	file, err := os.Open(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noManifest(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the manifest: %w", err)
	}
	r := &manifestReader{file: file, in: bufio.NewReaderSize(file, maxLine)}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := checkComplete(file); err != nil {
		return nil, err
	}
	line, err := r.readLine()
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &r.Header); err != nil || !strings.HasPrefix(r.Header.Format, "certvault backup ") {
		return nil, r.damage("the first line is not a header")
	}
	if r.Header.Format != manifestFormat {
		return nil, fmt.Errorf("%s has the format %q, which this version cannot read; use certvault %s", file.Name(), r.Header.Format, r.Header.Version)
	}
	return r, nil
}

// noManifest returns the error for a folder without a manifest: ErrPartial if the folder contains
// parts of a backup, and ErrNoBackup otherwise.
func noManifest(dir string) error {
	for _, part := range []string{databaseDir, filesDir} {
		if _, err := os.Stat(filepath.Join(dir, part)); err == nil {
			return fmt.Errorf("%w: %s has no %s", ErrPartial, dir, manifestName)
		}
	}
	return fmt.Errorf("%w: %s has no %s", ErrNoBackup, dir, manifestName)
}

// checkComplete returns ErrPartial unless the last line of a manifest is a trailer.
func checkComplete(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	end := make([]byte, min(info.Size(), maxLine))
	if _, err := file.ReadAt(end, info.Size()-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	text, ended := bytes.CutSuffix(end, []byte("\n"))
	if !ended || !isTrailer(text[bytes.LastIndexByte(text, '\n')+1:]) {
		return fmt.Errorf("%w: the last line of %s is missing; the backup was interrupted or not copied completely", ErrPartial, file.Name())
	}
	return nil
}

func isTrailer(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"count":`)) }

// next returns the next entry. After the last entry, next verifies the count and the signature, and
// returns io.EOF if they are correct. If they are wrong or a line is invalid, the error is
// ErrDamaged.
func (r *manifestReader) next() (Entry, error) {
	line, err := r.readLine()
	if err != nil {
		return Entry{}, err
	}
	if isTrailer(line) {
		return Entry{}, r.end(line)
	}
	r.mac.Write(line)
	r.count++
	var e Entry
	if err := json.Unmarshal(line, &e); err != nil || !validName(e.Name) || e.Size < 0 {
		return Entry{}, r.damage(fmt.Sprintf("line %d is not valid", r.count+1))
	}
	return e, nil
}

// validName reports whether a name refers to a file in one of the folders of a backup.
func validName(name string) bool {
	folder, _, below := strings.Cut(name, "/")
	return below && fs.ValidPath(name) && (folder == databaseDir || folder == filesDir || folder == keysDir)
}

// end checks the last line, the signature and the count. It returns io.EOF if they are correct.
func (r *manifestReader) end(line []byte) error {
	var t trailer
	if err := json.Unmarshal(line, &t); err != nil {
		return r.damage("the last line is not valid")
	}
	if _, err := r.in.Peek(1); !errors.Is(err, io.EOF) {
		return r.damage("there are lines after the last line")
	}
	if !hmac.Equal(t.MAC[:], r.mac.Sum(nil)) {
		return r.damage("the signature does not match the lines")
	}
	if t.Count != r.count {
		return r.damage(fmt.Sprintf("it has %d entries instead of %d", r.count, t.Count))
	}
	return io.EOF
}

// readLine returns the next line with its line feed. The line is valid until the next call.
func (r *manifestReader) readLine() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, r.damage("a line is too long")
	case errors.Is(err, io.EOF):
		return nil, r.damage("it ends too early")
	case err != nil:
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	return line, nil
}

func (r *manifestReader) damage(what string) error {
	return fmt.Errorf("%w: %s: %s", ErrDamaged, r.file.Name(), what)
}

// close closes the manifest.
func (r *manifestReader) close() error {
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("closing the manifest: %w", err)
	}
	return nil
}
