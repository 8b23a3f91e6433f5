package api

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxBody is the largest body of an upload in bytes.
	maxBody = 24 << 20
	// maxParts bounds the parts of a form.
	maxParts = 100
	// maxValue bounds one text field in bytes, well above the longest that is
	// valid, so that a field that is too long is told as such.
	maxValue = 64 << 10
)

// upload takes one certificate with its file.
func (a *API) upload(w http.ResponseWriter, c *call) (err error) {
	form := &uploadForm{api: a, call: c, fileField: "certificate_file", fields: textFields, values: map[string]string{}}
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
			IssueDate: form.values["issue_date"], Details: form.values["details"], File: form.file, FileProblem: form.problem,
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

// uploadForm is the multipart body of an upload, read part by part so that the
// file goes straight to the store.
type uploadForm struct {
	api      *API
	call     *call
	boundary string
	// fileField names the field of the file, fields those that are text.
	fileField string
	fields    []string

	print  *fingerprint
	values map[string]string
	// bad is what is wrong with the form itself.
	bad fault.Fields

	file *cert.File
	// problem is why there is no file though the field of the file came.
	problem *cert.Problem
}

func (f *uploadForm) read(p *fingerprint) error {
	f.print = p
	if err := readBody(f.call, maxBody, malformed, f.parts); err != nil {
		return err
	}
	p.end()
	return f.bad.Err()
}

func (f *uploadForm) parts(body io.Reader) error {
	n := 0
	return eachPart(body, f.boundary, func(part *multipart.Part) error {
		if n++; n > maxParts {
			return fault.New(fault.Invalid, fmt.Sprintf("The form has more than %d parts.", maxParts))
		}
		return f.part(part)
	})
}

// part takes one part, to its end.
func (f *uploadForm) part(part *multipart.Part) error {
	name := part.FormName()
	if name == f.fileField && part.FileName() != "" {
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
	case name == f.fileField:
		f.problem = &cert.Problem{Field: cert.FieldFile, Code: cert.CodeNotFile}
	case isList && field == f.fileField:
		f.bad.Add(field, label+"must be one file, not a list.")
	case !slices.Contains(f.fields, field):
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
	content, end := f.print.entry(ofFile, f.fileField)
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
	case f.file != nil || f.problem != nil:
		f.bad.Add(f.fileField, "Only one file can be uploaded.")
		return nil
	}
	file, err := f.api.Certs.Receive(f.call.Context(), f.call.institution.UUID, name, body)
	if f.problem = cert.RefusedFile(err); f.problem != nil {
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
