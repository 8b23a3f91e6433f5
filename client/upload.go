package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// File is a file to upload. Each attempt streams the file, without reading the whole file into memory.
type File struct {
	// Name is the name of the file, with the extension .pdf, .jpg, .jpeg or .png.
	Name string
	// Size is the length in bytes.
	Size int64
	// Open returns a reader at the beginning of the content. Open is called for each attempt,
	// possibly before the previous reader is closed.
	Open func() (io.ReadCloser, error)
}

// OpenFile returns a file of the file system. The file must not change until the upload ends.
func OpenFile(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the file to upload: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return &File{Name: filepath.Base(path), Size: info.Size(), Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}

// SeekFile returns a file that is read from r. Each attempt rewinds r. The caller must not use r
// until the upload ends.
func SeekFile(name string, r io.ReadSeeker) (*File, error) {
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("reading the size of %s: %w", name, err)
	}
	s := &seeker{r: r}
	return &File{Name: name, Size: size, Open: s.open}, nil
}

// seeker allows only the reader that was opened last to read, because net/http may continue to read a
// body for a moment after its request has failed.
type seeker struct {
	mu   sync.Mutex
	r    io.ReadSeeker
	last *seekReader
}

func (s *seeker) open() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.r.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewinding the file: %w", err)
	}
	s.last = &seekReader{of: s}
	return s.last, nil
}

type seekReader struct{ of *seeker }

func (r *seekReader) Read(p []byte) (int, error) {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if r.of.last != r {
		return 0, errors.New("the file is being read from its beginning again")
	}
	return r.of.r.Read(p)
}

func (*seekReader) Close() error { return nil }

// Progress calls f with the number of bytes of the files that were sent, and with the size of the files.
// Each attempt counts from 0. f is called on other goroutines, and must be safe for concurrent use. The
// option has no effect on a call without a file.
func Progress(f func(sent, total int64)) Option {
	return func(c *call) {
		if b, ok := c.body.(*formBody); ok {
			b.progress = f
		}
	}
}

// formBody is a multipart form with its fields first and its files last.
type formBody struct {
	kind string
	// heads contains the bytes before each file, and tail the bytes after the last file.
	heads    [][]byte
	tail     []byte
	files    []*File
	progress func(sent, total int64)
}

// formField is a text field of a form, and formFile is a file field.
type formField struct{ name, value string }

type formFile struct {
	name string
	file *File
}

// newFormBody returns a form with the files and the fields that are not empty.
func newFormBody(fields []formField, files ...formFile) (*formBody, error) {
	empty := func(f formField) bool { return f.value == "" }
	return newWholeFormBody(slices.DeleteFunc(slices.Clone(fields), empty), files...)
}

// newWholeFormBody returns a form with the files and all fields, including empty fields.
func newWholeFormBody(fields []formField, files ...formFile) (*formBody, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	body := &formBody{kind: w.FormDataContentType()}
	for _, f := range fields {
		if err := w.WriteField(f.name, f.value); err != nil {
			return nil, fmt.Errorf("writing the form: %w", err)
		}
	}
	for _, f := range files {
		if f.file == nil || f.file.Open == nil {
			return nil, errors.New("there is no file to upload")
		}
		if _, err := w.CreateFormFile(f.name, f.file.Name); err != nil {
			return nil, fmt.Errorf("writing the form: %w", err)
		}
		body.heads, body.files = append(body.heads, bytes.Clone(b.Bytes())), append(body.files, f.file)
		b.Reset()
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("writing the form: %w", err)
	}
	body.tail = b.Bytes()
	return body, nil
}

func (b *formBody) contentType() string { return b.kind }

func (b *formBody) size() int64 {
	n := b.fileSize() + int64(len(b.tail))
	for _, head := range b.heads {
		n += int64(len(head))
	}
	return n
}

// fileSize returns the size of all files.
func (b *formBody) fileSize() (n int64) {
	for _, f := range b.files {
		n += f.Size
	}
	return n
}

func (b *formBody) open() (io.ReadCloser, error) {
	r := &formReader{}
	var parts []io.Reader
	var before int64
	for i, f := range b.files {
		content, err := f.Open()
		if err != nil {
			return nil, errors.Join(&sourceError{fmt.Errorf("opening %s: %w", f.Name, err)}, r.Close())
		}
		r.files = append(r.files, content)
		source := &sourceReader{r: content, file: f}
		if b.progress != nil {
			sent, total := before, b.fileSize()
			source.progress = func(n int64) { b.progress(sent+n, total) }
		}
		before += f.Size
		parts = append(parts, bytes.NewReader(b.heads[i]), source)
	}
	r.Reader = io.MultiReader(append(parts, bytes.NewReader(b.tail))...)
	return r, nil
}

// formReader reads a form. Close closes the files of the form.
type formReader struct {
	io.Reader

	files []io.Closer
}

func (r *formReader) Close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// sourceError means that the file cannot be opened or read, or has changed. The call is not repeated.
type sourceError struct{ err error }

func (s *sourceError) Error() string { return s.err.Error() }
func (s *sourceError) Unwrap() error { return s.err }

// sourceReader reads a file, checks that its length is file.Size, and reports the progress.
type sourceReader struct {
	r        io.Reader
	file     *File
	sent     int64
	progress func(sent int64)
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sent += int64(n)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return n, &sourceError{fmt.Errorf("reading %s: %w", s.file.Name, err)}
	case s.sent > s.file.Size || err != nil && s.sent < s.file.Size:
		return n, &sourceError{fmt.Errorf("%s changed while it was uploaded", s.file.Name)}
	}
	if n > 0 && s.progress != nil {
		s.progress(s.sent)
	}
	return n, err
}
