package body

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/certvault/certvault/internal/fault"
)

// maxPartHeader is the maximum size in bytes of the header of a part. Package mime/multipart would
// read up to 10 MB of a header into memory.
const maxPartHeader = 64 << 10

var errPartHeader = errors.New("the header of a part is too large")

// Form reads the parts of a multipart form (RFC 7578), in order. As with bufio.Scanner, Next returns
// false at the end or after an error, and Err returns that error.
type Form struct {
	body  *reader
	parts *multipart.Reader
	n     int
	part  *Part
	done  bool
	err   error
}

// Part is one part of a form. If the client causes an error of Read, the error is a *fault.Error.
type Part struct {
	*multipart.Part

	form *Form
}

// OpenForm returns the form in the body of r. The caller must have called Limit. OpenForm returns
// fault.Unsupported if the body is not multipart/form-data, has no boundary or is compressed.
func OpenForm(r *http.Request) (*Form, error) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/form-data" {
		return nil, fault.New(fault.Unsupported, "The request must be multipart/form-data.")
	}
	if params["boundary"] == "" {
		return nil, fault.New(fault.Unsupported, "The multipart/form-data request names no boundary.")
	}
	b, ok := r.Body.(*reader)
	if !ok {
		return nil, errNoLimits
	}
	return &Form{body: b, parts: multipart.NewReader(b, params["boundary"])}, CheckEncoding(r)
}

// Next skips the rest of the current part and reports whether there is a next part. A part beyond
// Limits.Parts is an error.
func (f *Form) Next() bool {
	if f.part != nil {
		_, _ = io.Copy(io.Discard, f.part) // Part.Read stores the error in f.err
	}
	if f.err != nil || f.done {
		return false
	}
	f.body.headerLeft, f.body.inHeader = maxPartHeader, true
	part, err := f.parts.NextPart()
	f.body.inHeader = false
	switch {
	case err == io.EOF: // NextPart wraps io.EOF if the body ends without the last boundary
		f.part, f.done = nil, true
		// The bytes after the last boundary count toward the size.
		_, f.err = io.Copy(io.Discard, f.body)
	case err != nil:
		f.err = f.body.broken(err)
	case f.n == f.body.limits.Parts:
		f.err = f.body.limits.TooMany
		if f.body.limits.TooMany == nil {
			f.err = fault.New(fault.Invalid, fmt.Sprintf("The form has more than %d parts.", f.n))
		}
	default:
		f.n++
		f.part = &Part{Part: part, form: f}
		return true
	}
	return false
}

// Part returns the current part.
func (f *Form) Part() *Part { return f.part }

// Err returns the error that ended the form, or nil if there was no error.
func (f *Form) Err() error { return f.err }

// Read implements io.Reader.
func (p *Part) Read(b []byte) (int, error) {
	n, err := p.Part.Read(b)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	p.form.err = p.form.body.broken(err)
	return n, p.form.err
}

// Value returns the first limit bytes of the part, and writes the whole part to a writer. If the part cannot be
// read to its end, Form.Err returns the error. Value ignores the errors of the writer, which must not fail.
func (p *Part) Value(limit int, all io.Writer) []byte {
	value, err := io.ReadAll(io.TeeReader(io.LimitReader(p, int64(limit)), all))
	if err == nil {
		_, _ = io.Copy(all, p) // Read stores the error in the form
	}
	return value
}

// ParseForm parses the URL-encoded form in the body of r, of at most limit bytes, into r.PostForm.
// The error for an invalid form is fault.TooLarge, fault.TimedOut or fault.BadRequest.
func ParseForm(w http.ResponseWriter, r *http.Request, limit int64) error {
	Limit(w, r, Limits{
		Size: limit, TooLarge: fault.New(fault.TooLarge, "The form is too large."), Broken: fault.New(fault.BadRequest, "The form could not be read."),
	})
	return BadForm(r.ParseForm())
}

// BadForm returns err as a fault: a *fault.Error unchanged, nil for nil, and fault.BadRequest for
// any other error.
func BadForm(err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok || err == nil {
		return err
	}
	return fault.Wrap(fault.BadRequest, "The form could not be read.", err)
}
