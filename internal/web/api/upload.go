package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
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
	// maxPartHead bounds what is read for the head of one part.
	maxPartHead = 64 << 10
	// uploadTime bounds how long a body may take to come.
	uploadTime = 10 * time.Minute
)

// upload takes one certificate with its file.
func (a *API) upload(w http.ResponseWriter, c *call) (err error) {
	form := &uploadForm{api: a, call: c, values: map[string]string{}}
	if form.boundary, err = formBoundary(c.Request); err != nil {
		return err
	}
	// What no certificate came to refer to goes at once; after a crash, the
	// sweep takes it.
	defer func() {
		if form.file != nil {
			err = errors.Join(err, a.Certs.Discard(c.Context(), form.file))
		}
	}()
	return a.once(w, c, form.read, func(answer answerTx) error {
		_, err := a.Certs.Upload(c.Context(), cert.Upload{
			Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Context: cert.SingleUpload,
			Title: form.values["certificate_title"], FullName: form.values["full_name"], Email: form.values["applicant_email"],
			IssueDate: form.values["issue_date"], Details: form.values["details"], File: form.file, FileError: form.fileError,
			Then: a.answerWith(c, answer, http.StatusCreated, "Certificate uploaded successfully and is being processed."),
		})
		if err == nil || fault.KindOf(err) == fault.Internal {
			// After a fault of ours the commit may have been made all the same.
			form.file = nil
		}
		return err
	})
}

// message is the answer to a deed.
type message struct {
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// textFields are the fields of an upload that are text.
var textFields = []string{"certificate_title", "full_name", "applicant_email", "issue_date", "details"}

const fileField = "certificate_file"

// uploadForm is the multipart body of an upload, read part by part so that the
// file goes straight to the store.
type uploadForm struct {
	api      *API
	call     *call
	boundary string

	print  *fingerprint
	values map[string]string
	// bad is what is wrong with the form itself.
	bad fault.Fields

	file      *cert.File
	fileError string
}

// formBoundary gives what parts the request's form (RFC 7578, 4.1).
func formBoundary(r *http.Request) (string, error) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return "", fault.New(fault.Unsupported, "The request must be multipart/form-data.")
	}
	if params["boundary"] == "" {
		return "", fault.New(fault.Unsupported, "The multipart/form-data request names no boundary.")
	}
	return params["boundary"], checkEncoding(r)
}

func (f *uploadForm) read(p *fingerprint) error {
	f.print = p
	f.call.body.allow(uploadTime)
	body := &countedBody{r: f.call.Body, left: maxBody}
	if f.call.ContentLength > maxBody {
		if f.call.Header.Get("Expect") != "" {
			return errBodyTooLarge // and need not be sent
		}
		body.left = 0
	}
	err := f.parts(body)
	if body.over || err == nil {
		// What follows the closing boundary is read too, and counts.
		if _, drainErr := io.Copy(io.Discard, body); drainErr != nil {
			err = errors.Join(err, malformed(drainErr))
		}
	}
	if body.over {
		_, _ = io.Copy(io.Discard, io.LimitReader(f.call.Body, maxDrain))
		return errBodyTooLarge
	}
	if err != nil {
		return err
	}
	p.end()
	return f.bad.Err()
}

var errBodyTooLarge = fault.New(fault.TooLarge, fmt.Sprintf("The request body is larger than %d MiB.", maxBody>>20))

func (f *uploadForm) parts(body io.Reader) error {
	head := &headReader{r: body}
	mr := multipart.NewReader(head, f.boundary)
	for n := 0; ; n++ {
		head.bound(maxPartHead)
		part, err := mr.NextPart()
		head.free()
		// Wrapped, it would be the end of a body that does not end.
		if err == io.EOF {
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
	return unread("The multipart/form-data body is malformed or incomplete.", err)
}

// part takes one part, to its end.
func (f *uploadForm) part(part *multipart.Part) error {
	name := part.FormName()
	if name == fileField && part.FileName() != "" {
		return f.filePart(part)
	}
	content, end := f.print.entry(ofField, name)
	value, err := io.ReadAll(io.TeeReader(io.LimitReader(part, maxValue), content))
	if err == nil {
		_, err = io.Copy(content, part)
	}
	if err != nil {
		return malformed(err)
	}
	end()
	f.text(name, string(value), part.FileName() != "")
	return nil
}

// text takes a field that is text; what nobody knows is passed over.
func (f *uploadForm) text(name, value string, isFile bool) {
	field, _, isList := strings.Cut(name, "[")
	_, twice := f.values[name]
	label := "The " + strings.ReplaceAll(field, "_", " ") + " field "
	switch {
	case name == "":
		f.bad.Add("form", "Each part of the form must have a name.")
	case name == fileField:
		f.fileError = label + "must be a file."
	case isList && field == fileField:
		f.bad.Add(field, label+"must be one file, not a list.")
	case !slices.Contains(textFields, field):
	case isList:
		f.bad.Add(field, label+"must be text, not a list.")
	case isFile:
		f.bad.Add(field, label+"must be text, not a file.")
	case twice:
		f.bad.Add(field, "The field is given more than once.")
	default:
		f.values[field] = value
	}
}

func (f *uploadForm) filePart(part *multipart.Part) error {
	content, end := f.print.entry(ofFile, fileField)
	body := &partReader{r: io.TeeReader(part, content)}
	if err := f.receive(part.FileName(), body); err != nil {
		if body.err != nil {
			return malformed(err)
		}
		return err
	}
	// What a refused file has left is part of the content too.
	if _, err := io.Copy(io.Discard, body); err != nil {
		return malformed(err)
	}
	end()
	return nil
}

func (f *uploadForm) receive(name string, body io.Reader) error {
	switch {
	case f.print.isKnown():
		return nil
	case f.file != nil || f.fileError != "":
		f.bad.Add(fileField, "Only one file can be uploaded.")
		return nil
	}
	file, err := f.api.Certs.Receive(f.call.Context(), f.call.institution.UUID, name, body)
	if refused, ok := errors.AsType[*cert.FieldError](err); ok {
		f.fileError = refused.Message
		return nil
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
