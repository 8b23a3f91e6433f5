package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/certvault/certvault/internal/blob"
)

const (
	// copyBuffer is the size of the buffer through which a file is copied.
	copyBuffer = 256 << 10
	// syncEvery is the total size of copied files after which they are synced. Without this limit, the
	// system could write many files at once, and uploads would wait.
	syncEvery = 64 << 20
)

// path returns the path of a file of the backup, and creates the folder of the file.
func (b *builder) path(name string) (string, error) {
	file := filepath.Join(b.Dir, filepath.FromSlash(name))
	dir := filepath.Dir(file)
	if !b.made[dir] {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("creating a folder of the backup: %w", err)
		}
		b.made[dir] = true
	}
	return file, nil
}

// add adds a file to the manifest.
func (b *builder) add(name string, size int64, sum Digest) error {
	b.result.Files++
	b.result.Bytes += size
	return b.manifest.add(Entry{Name: name, Size: size, SHA256: sum})
}

// addWritten makes a file of the backup private and adds it to the manifest.
func (b *builder) addWritten(ctx context.Context, name string) error {
	file, err := b.path(name)
	if err != nil {
		return err
	}
	if err := os.Chmod(file, 0o600); err != nil {
		return fmt.Errorf("making a file of the backup private: %w", err)
	}
	size, sum, err := b.digest(ctx, file)
	if err != nil {
		return err
	}
	b.result.Copied += size
	return b.add(name, size, sum)
}

// addBlob adds a blob to the backup. It links the file of the earlier backup or of the store if
// possible, and copies the file otherwise.
func (b *builder) addBlob(ctx context.Context, key string) error {
	if err := b.pace.wait(ctx); err != nil {
		return err
	}
	name := blobName(key)
	to, err := b.path(name)
	if err != nil {
		return err
	}
	e, linked, err := b.since.link(name, to)
	if linked {
		return b.add(name, e.size, e.sha256)
	}
	if err == nil {
		err = b.linkBlob(ctx, key, to)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // another row refers to the same blob
	case errors.Is(err, blob.ErrNotFound) && !b.FilesOnly:
		if b.missing[name] {
			return nil // another row refers to the same blob
		}
		b.missing[name] = true
		return b.addMissing(name)
	}
	return err
}

// linkBlob links a blob into the backup, or copies it if it cannot be linked, and adds it to the
// manifest. The error is [fs.ErrExist] if the backup has the blob already.
func (b *builder) linkBlob(ctx context.Context, key, to string) error {
	folder, ok := b.Files.(*blob.Folder)
	if !ok {
		return b.copyBlob(ctx, key, to)
	}
	if err := folder.Link(key, to); err != nil {
		if err := ignoreLink(err); err != nil {
			return err
		}
		return b.copyBlob(ctx, key, to)
	}
	size, sum, err := b.digest(ctx, to)
	if err != nil {
		return err
	}
	return b.add(blobName(key), size, sum)
}

// ignoreLink returns nil if an error means that a file cannot be linked and must be copied: the
// link would be on another file system, the file system supports no links or no more links to the
// file, or the file belongs to another user (link(2)).
func ignoreLink(err error) error {
	for _, known := range []error{syscall.EXDEV, syscall.EPERM, syscall.EMLINK, syscall.EACCES, syscall.ENOTSUP} {
		if errors.Is(err, known) {
			return nil
		}
	}
	return err
}

// copyBlob copies a blob to the backup and adds it to the manifest.
func (b *builder) copyBlob(ctx context.Context, key, to string) (err error) {
	object, err := b.Files.Open(blob.WithoutCache(ctx), key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, object.Close()) }()
	return b.copy(ctx, io.NewSectionReader(object, 0, object.Size()), blobName(key), to)
}

// copyFile copies a file to the backup. It returns false if the file does not exist.
func (b *builder) copyFile(ctx context.Context, from, name string) (ok bool, err error) {
	file, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("copying a file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	to, err := b.path(name)
	if err != nil {
		return false, err
	}
	return true, b.copy(ctx, file, name, to)
}

// copy creates a file of the backup and adds it to the manifest.
func (b *builder) copy(ctx context.Context, from io.Reader, name, to string) error {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copying a file: %w", err)
	}
	hash := sha256.New()
	size, err := b.stream(ctx, io.MultiWriter(file, hash), from)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("copying %s: %w", name, err)
	}
	b.result.Copied += size
	if b.unsynced += size; b.unsynced > syncEvery {
		b.unsynced = 0
		if err := syncAll(b.Dir); err != nil {
			return err
		}
	}
	return b.add(name, size, Digest(hash.Sum(nil)))
}

// digest returns the size and the digest of a file.
func (b *builder) digest(ctx context.Context, name string) (int64, Digest, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, Digest{}, fmt.Errorf("reading a file of the backup: %w", err)
	}
	hash := sha256.New()
	size, err := b.stream(ctx, hash, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, Digest{}, fmt.Errorf("reading a file of the backup: %w", err)
	}
	return size, Digest(hash.Sum(nil)), nil
}

// stream copies all bytes of a reader to a writer, and returns their number. It pauses at intervals, so
// that the backup does not slow down uploads.
func (b *builder) stream(ctx context.Context, to io.Writer, from io.Reader) (size int64, err error) {
	buffer := make([]byte, copyBuffer)
	for {
		if err := b.pace.wait(ctx); err != nil {
			return size, err
		}
		n, err := from.Read(buffer)
		if n > 0 {
			size += int64(n)
			if _, err := to.Write(buffer[:n]); err != nil {
				return size, err
			}
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}

// addMissing records that the store lacks a file.
func (b *builder) addMissing(name string) error {
	b.result.Missing++
	if len(b.result.MissingFiles) < maxMissing {
		b.result.MissingFiles = append(b.result.MissingFiles, name)
	}
	return b.manifest.add(Entry{Name: name, Missing: true})
}

// copyMark copies the file with the installation id of the store.
func (b *builder) copyMark(ctx context.Context) error {
	if s, ok := b.Files.(*blob.S3); ok {
		return b.writeMark(ctx, s)
	}
	for _, name := range []string{markName, oldMarkName} {
		ok, err := b.copyFile(ctx, filepath.Join(b.Data, filepath.FromSlash(name)), name)
		if ok || err != nil {
			return err
		}
	}
	if b.installation == "" {
		return nil // the vault was never started
	}
	return b.addMissing(markName)
}

// writeMark writes the file with the installation id of a store in S3.
func (b *builder) writeMark(ctx context.Context, s *blob.S3) error {
	installation, err := s.Installation(ctx)
	if errors.Is(err, blob.ErrNoInstallation) && b.installation == "" {
		return nil // the vault was never started
	}
	if errors.Is(err, blob.ErrNoInstallation) {
		return b.addMissing(markName)
	}
	if err != nil {
		return err
	}
	text, err := installation.Encode()
	if err != nil {
		return fmt.Errorf("copying the installation id: %w", err)
	}
	to, err := b.path(markName)
	if err != nil {
		return err
	}
	return b.copy(ctx, bytes.NewReader(text), markName, to)
}

// copyKeys copies the master key and the age identity, if they are files of the data folder.
func (b *builder) copyKeys(ctx context.Context) error {
	if b.WithoutKeys {
		return nil
	}
	for _, name := range []string{masterKeyName, identityName, protectedIdentityName} {
		ok, err := b.copyFile(ctx, filepath.Join(b.Data, filepath.FromSlash(name)), name)
		if err != nil {
			return err
		}
		b.result.Keys = b.result.Keys || ok && name == masterKeyName
	}
	return nil
}

// pace limits the share of the time in which a backup works, so that the backup does not slow down
// uploads. worked is the time at which the work began after the last pause.
type pace struct{ worked time.Time }

// paceAfter is the minimum time of work between two pauses.
const paceAfter = 5 * time.Millisecond

// wait pauses if the backup has worked for at least paceAfter. The pause is as long as the work, but at
// most 10 times paceAfter. wait returns the cause if ctx has ended.
func (p *pace) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := time.Now()
	if p.worked.IsZero() {
		p.worked = now
		return nil
	}
	worked := now.Sub(p.worked)
	if worked < paceAfter {
		return nil
	}
	timer := time.NewTimer(min(worked, 10*paceAfter))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		p.worked = time.Now()
		return nil
	}
}
