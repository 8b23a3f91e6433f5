package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web"
)

const (
	// maxBody is the largest body of an upload in bytes.
	maxBody = 24 << 20
	// maxDrain is how much of a body over the limit is read all the same: a
	// client that is still writing would see a reset connection in place of the
	// answer.
	maxDrain = 64 << 20
	// maxParts bounds the parts of a form.
	maxParts = 100
	// maxValue bounds one text field in bytes, well above the longest that is
	// valid, so that a field that is too long is told as such.
	maxValue = 64 << 10
	// uploadTime bounds how long a body may take to come.
	uploadTime = 10 * time.Minute
	// drainTime bounds how long a refused body is read.
	drainTime = 30 * time.Second
)

// upload takes one certificate with its file.
func (a *API) upload(w http.ResponseWriter, c *call) (err error) {
	form := &uploadForm{api: a, call: c, values: map[string]string{}}
	// What no certificate came to refer to goes at once; after a crash, the
	// sweep takes it.
	defer func() {
		if form.file != nil {
			err = errors.Join(err, a.Certs.Discard(c.Context(), form.file))
		}
	}()
	if err := form.read(w); err != nil {
		return err
	}
	made, err := a.Certs.Upload(c.Context(), cert.Upload{
		Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Context: cert.SingleUpload,
		Title: form.values["certificate_title"], FullName: form.values["full_name"], Email: form.values["applicant_email"],
		IssueDate: form.values["issue_date"], Details: form.values["details"], File: form.file, FileError: form.fileError,
	})
	if err == nil || fault.KindOf(err) == fault.Internal {
		// After a fault of ours the commit may have been made all the same.
		form.file = nil
	}
	if err != nil {
		return err
	}
	data, err := a.wire(made, c.institution)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusCreated, message{Message: "Certificate uploaded successfully and is being processed.", Data: data})
}

// message is the answer to a deed.
type message struct {
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// uploadForm is the multipart body of an upload, read part by part so that the
// file goes straight to the store.
type uploadForm struct {
	api    *API
	call   *call
	values map[string]string

	file      *cert.File
	fileError string
}

func (f *uploadForm) read(w http.ResponseWriter) error {
	mediaType, params, err := mime.ParseMediaType(f.call.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return fault.New(fault.Unsupported, "The request must be multipart/form-data.")
	}
	if params["boundary"] == "" {
		return fault.New(fault.Unsupported, "The multipart/form-data request names no boundary.")
	}
	// A connection that is not read in time is cut, however slowly it drips.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("bounding the upload's time: %w", err)
	}
	body := &countedBody{r: f.call.Body, left: maxBody}
	if f.call.ContentLength > maxBody {
		body.left = 0
	}
	err = f.parts(multipart.NewReader(body, params["boundary"]))
	if body.over || err == nil {
		// What follows the closing boundary is read too, and counts.
		if _, drainErr := io.Copy(io.Discard, body); drainErr != nil {
			err = errors.Join(err, malformed(drainErr))
		}
	}
	if body.over {
		_, drainErr := io.Copy(io.Discard, io.LimitReader(f.call.Body, maxDrain))
		return &fault.Error{Kind: fault.TooLarge, Message: fmt.Sprintf("The request body is larger than %d MiB.", maxBody>>20), Err: drainErr}
	}
	return err
}

func (f *uploadForm) parts(mr *multipart.Reader) error {
	for n := 0; ; n++ {
		part, err := mr.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return malformed(err)
		}
		if n >= maxParts {
			return fault.New(fault.Invalid, fmt.Sprintf("The form has more than %d parts.", maxParts))
		}
		if err := f.part(part); err != nil {
			return err
		}
	}
}

func malformed(err error) error {
	return fault.Wrap(fault.Invalid, "The multipart/form-data body is malformed or incomplete.", err)
}

func (f *uploadForm) part(part *multipart.Part) error {
	name := part.FormName()
	if name != "certificate_file" {
		value, err := io.ReadAll(io.LimitReader(part, maxValue))
		if err != nil {
			return malformed(err)
		}
		if _, twice := f.values[name]; twice {
			return fault.OfField(name, "The field is given more than once.")
		}
		f.values[name] = string(value)
		return nil
	}
	switch {
	case f.file != nil || f.fileError != "":
		return fault.OfField(name, "Only one file can be uploaded.")
	case part.FileName() == "":
		f.fileError = "The certificate file field must be a file."
		return nil
	}
	body := &partReader{r: part}
	file, err := f.api.Certs.Receive(f.call.Context(), f.call.institution.UUID, part.FileName(), body)
	if refused, ok := errors.AsType[*cert.FieldError](err); ok {
		f.fileError = refused.Message
		return nil
	}
	if err != nil && body.err != nil {
		return malformed(err)
	}
	if err != nil {
		return err
	}
	f.file = file
	return nil
}

// partReader remembers why a part could not be read: that is the client's doing,
// or the line's, and no fault of the store.
type partReader struct {
	r   io.Reader
	err error
}

func (p *partReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// countedBody ends with an error after maxBody bytes and remembers that it did.
type countedBody struct {
	r    io.Reader
	left int64
	over bool
}

var errBody = errors.New("the body is over the limit")

func (b *countedBody) Read(p []byte) (int, error) {
	if b.over || b.left == 0 && b.more() {
		b.over = true
		return 0, errBody
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// more tells whether there is a byte beyond the limit.
func (b *countedBody) more() bool {
	var one [1]byte
	n, _ := io.ReadFull(b.r, one[:])
	return n > 0
}
