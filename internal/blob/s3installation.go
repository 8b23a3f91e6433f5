package blob

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/minio/minio-go/v7"
)

// maxInstallation is the maximum size in bytes of the file with the installation.
const maxInstallation = 1 << 20

// Location returns the bucket and the prefix.
func (s *S3) Location() string {
	return s3Scheme + "://" + strings.TrimSuffix(s.bucket+"/"+s.prefix, "/")
}

// InstallationPath returns the place of the file with the installation.
func (s *S3) InstallationPath() string { return s.Location() + "/" + InstallationFile }

// Installation returns the installation of the store.
func (s *S3) Installation(ctx context.Context) (Installation, error) {
	limited, cancel := transferTime(ctx, 0)
	defer cancel()
	text, err := s.read(limited, s.prefix+InstallationFile)
	switch {
	case errors.Is(err, ErrNotFound):
		return Installation{}, fmt.Errorf("%w: %s does not exist", ErrNoInstallation, s.InstallationPath())
	case err != nil:
		return Installation{}, fmt.Errorf("reading the installation id: %w", err)
	}
	return parseInstallation(s.InstallationPath(), text)
}

// read returns the content of an object of at most maxInstallation bytes.
func (s *S3) read(ctx context.Context, name string) ([]byte, error) {
	body, _, _, err := s.core.GetObject(ctx, s.bucket, name, minio.GetObjectOptions{})
	if isMissing(err) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, s.failure(ctx, "reading "+name, err)
	}
	text, err := io.ReadAll(io.LimitReader(body, maxInstallation))
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, s.failure(ctx, "reading "+name, err)
	}
	return text, nil
}

// SetInstallation stores the installation, unless the store has one.
func (s *S3) SetInstallation(ctx context.Context, i Installation) error {
	text, err := i.Encode()
	if err != nil {
		return fmt.Errorf("storing the installation id: %w", err)
	}
	if err := s.storeText(ctx, s.prefix+InstallationFile, text); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("storing the installation id: %w", err)
	}
	return nil
}

func (s *S3) storeText(ctx context.Context, name string, text []byte) error {
	sum := sha256.Sum256(text)
	return s.store(ctx, name, bytes.NewReader(text), int64(len(text)), sum[:])
}

// Probe reads the installation, and removes expired copies from the cache. It writes nothing, because a
// bucket with versions would keep each file that Probe writes.
func (s *S3) Probe(ctx context.Context) error {
	s.cache.purge()
	_, err := s.Installation(ctx)
	return err
}

var (
	errReplaces   = errors.New("the store replaces existing files: it does not support the header If-None-Match of PUT requests")
	errUnverified = errors.New("the store accepts files with a wrong checksum: it does not support the header x-amz-checksum-sha256")
	errOtherBytes = errors.New("the store returned content that differs from what was stored")
)

// Test stores, reads and removes a file. It also checks that the store refuses a second file with the
// same name, and a file with a wrong checksum.
func (s *S3) Test(ctx context.Context) (err error) {
	name := s.prefix + incomingDir + "/probe-" + uuid.NewString()
	text := []byte("probe " + time.Now().UTC().Format(time.RFC3339Nano) + "\n")
	if err := s.storeText(ctx, name, text); err != nil {
		return fmt.Errorf("writing to the file store: %w", err)
	}
	defer func() { err = errors.Join(err, s.removeProbes(context.WithoutCancel(ctx), name, name+"-2")) }()
	got, err := s.read(ctx, name)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(got, text):
		return errOtherBytes
	}
	if err := s.storeText(ctx, name, append(text, 'x')); !errors.Is(err, ErrExists) {
		return errors.Join(errReplaces, err)
	}
	wrong := sha256.Sum256(append(text, 'y'))
	if err := s.store(ctx, name+"-2", bytes.NewReader(text), int64(len(text)), wrong[:]); err == nil {
		return errUnverified
	}
	return nil
}

func (s *S3) removeProbes(ctx context.Context, names ...string) error {
	ctx, cancel := transferTime(ctx, 0)
	defer cancel()
	for _, name := range names {
		if err := s.core.RemoveObject(ctx, s.bucket, name, minio.RemoveObjectOptions{}); err != nil {
			return s.failure(ctx, "removing from the file store", err)
		}
	}
	return nil
}

// exists returns an error if the bucket cannot be read.
func (s *S3) exists(ctx context.Context) error {
	if _, err := s.Installation(ctx); !errors.Is(err, ErrNoInstallation) {
		return err
	}
	return nil
}

// createNew does nothing, because a prefix exists as soon as a file is stored under it.
func (s *S3) createNew() error { return nil }

// contains reports whether another store is in the same bucket of the same server, under the same prefix
// or one below it.
func (s *S3) contains(other FileStore) (bool, error) {
	o, ok := other.(*S3)
	return ok && o.bucket == s.bucket && o.core.EndpointURL().Host == s.core.EndpointURL().Host && strings.HasPrefix(o.prefix, s.prefix), nil
}

// Incomplete describes the multipart uploads that were not completed. The vault starts none, because it
// stores each file with one request. Other programs that write to the bucket may start some. The
// provider charges for the parts of these uploads until a rule of the bucket ends the uploads.
type Incomplete struct {
	// Rule reports whether a rule of the bucket ends incomplete uploads in the prefix.
	Rule bool
	// Uploads is the number of incomplete uploads in the prefix.
	Uploads int
}

// Incomplete returns the state of incomplete uploads in the prefix. Uploads is 0 if the server does not
// support or permit listing them.
func (s *S3) Incomplete(ctx context.Context) (Incomplete, error) {
	ctx, cancel := transferTime(ctx, 0)
	defer cancel()
	var i Incomplete
	// Rule is false if the rules cannot be read, for example without permission.
	if rules, err := s.core.GetBucketLifecycle(ctx, s.bucket); err == nil {
		for _, r := range rules.Rules {
			prefix := r.RuleFilter.Prefix
			if prefix == "" {
				prefix = r.Prefix
			}
			limited := r.RuleFilter.And.Prefix != "" || len(r.RuleFilter.And.Tags) > 0 || r.RuleFilter.Tag.Key != ""
			i.Rule = i.Rule || r.Status == "Enabled" && !r.AbortIncompleteMultipartUpload.IsDaysNull() && !limited && strings.HasPrefix(s.prefix, prefix)
		}
	}
	for u := range s.core.ListIncompleteUploads(ctx, s.bucket, s.prefix, true) {
		if isNotSupported(u.Err) {
			return i, nil
		}
		if u.Err != nil {
			return i, s.failure(ctx, "listing incomplete uploads", u.Err)
		}
		i.Uploads++
	}
	return i, nil
}

func isNotSupported(err error) bool {
	if err == nil {
		return false
	}
	code := minio.ToErrorResponse(err).Code
	return code == minio.NotImplemented || code == minio.NoSuchUpload || code == minio.AccessDenied
}
