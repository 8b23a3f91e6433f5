package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

const (
	// maxBody is the maximum size of the body of an upload in bytes.
	maxBody = 24 << 20
	// maxParts is the maximum number of parts of a form, except of a bulk upload.
	maxParts = 100
	// maxValue is the maximum number of bytes of a text field that are kept in memory. It is greater than the
	// maximum length of a valid value, so that validation refuses a text that is too long.
	maxValue = 64 << 10
	// uploadTime is the maximum time for receiving a body.
	uploadTime = 10 * time.Minute
)

// malformedForm is the message for a multipart form that cannot be read.
const malformedForm = "The multipart/form-data body is malformed or incomplete."

// limits returns the limits of a body of at most size bytes. malformed is the message for a body
// that cannot be read.
func limits(size int64, malformed string) body.Limits {
	text := fmt.Sprintf("%d MiB", size>>20)
	if size < 1<<20 {
		text = fmt.Sprintf("%d KiB", size>>10)
	}
	return body.Limits{
		Size: size, Time: uploadTime, Parts: maxParts, Broken: fault.New(fault.Invalid, malformed),
		TooLarge: fault.New(fault.TooLarge, "The request body is larger than "+text+"."),
	}
}

// upload creates a certificate from a file and its text fields.
func (a *API) upload(w http.ResponseWriter, c *call) error {
	form, err := openUpload(w, c.Request, "certificate_file", "certificate_title", "full_name", "applicant_email", "issue_date", "details", "expires_on", notifyName)
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	err = form.receive(x, func(file *cert.File) error {
		_, err := a.Certs.Upload(c.Context(), cert.Upload{
			Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Context: cert.SingleUpload,
			Title: form.values["certificate_title"], FullName: form.values["full_name"], Email: form.values["applicant_email"],
			IssueDate: form.values["issue_date"], Details: form.values["details"], ExpiresOn: form.values["expires_on"], File: file, FileProblem: form.fileProblem,
			Notify: cert.ReadNotify(form.values[notifyName]),
			Then:   x.withCertificate(http.StatusCreated, "Certificate uploaded successfully and is being processed."),
		})
		return err
	})
	return x.end(w, err)
}

// message is the response to an operation.
type message struct {
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// uploadForm is the multipart form of an upload. It is read part by part, so that the file is
// written to the store while it is received.
type uploadForm struct {
	*body.Form

	// fileField is the name of the field with the file; fields are the names of the text fields.
	fileField string
	fields    []string

	values map[string]string
	// bad has the problems of the form itself, and fileProblem is the problem of the file.
	bad         fault.Fields
	fileProblem *cert.Problem
}

// openUpload returns the form in the body of r, and does not read the body yet.
func openUpload(w http.ResponseWriter, r *http.Request, fileField string, fields ...string) (*uploadForm, error) {
	body.Limit(w, r, limits(maxBody, malformedForm))
	form, err := body.OpenForm(r)
	return &uploadForm{Form: form, fileField: fileField, fields: fields, values: map[string]string{}}, err
}

// receive reads the form to its end and stores its file. It then calls use, which creates the record of
// the file. The file is nil if the form has no file or if the file was refused. If use returns an error,
// the stored file may be deleted: see cert.Service.Receive. For a repeated request, receive only computes
// the fingerprint. It stores nothing and does not call use.
func (f *uploadForm) receive(x *exchange, use func(*cert.File) error) error {
	incoming := f.nextFile(x)
	finish := func(file *cert.File) error {
		if err := f.rest(x, incoming); err != nil {
			return err
		}
		return use(file)
	}
	if incoming == nil || x.isRepeated() {
		return finish(nil)
	}
	err := x.api.Certs.Receive(x.call.Context(), x.call.institution.UUID, incoming, finish)
	if problem := cert.RefusedFile(err); problem != nil {
		f.fileProblem = problem
		return finish(nil)
	}
	return err
}

// nextFile reads the fields before the next file and returns the file. It returns nil at the end of the
// form or after an error. Err returns the error.
func (f *uploadForm) nextFile(x *exchange) *cert.Incoming {
	for f.Next() {
		part := f.Part()
		if part.FormName() == f.fileField && part.FileName() != "" {
			return cert.NewIncoming(part.FileName(), part)
		}
		content, end := x.field(part.FormName())
		value := part.Value(maxValue, content)
		end()
		f.text(part.FormName(), string(value), part.FileName() != "")
	}
	return nil
}

// rest reads the rest of the first file, and the fields and files after this file. first is nil if the
// form has no file.
func (f *uploadForm) rest(x *exchange, first *cert.Incoming) error {
	for file := first; file != nil; file = f.nextFile(x) {
		if err := file.Drain(); err != nil {
			return err
		}
		x.file(f.fileField, file.SHA256())
		if file != first {
			f.bad.Add(f.fileField, "Only one file can be uploaded.")
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	if err := x.complete(); err != nil {
		return err
	}
	return f.bad.Err()
}

// text stores the value of a text field, or records the problem of a field that is malformed or
// repeated. It ignores an unknown field.
func (f *uploadForm) text(name, value string, isFile bool) {
	field, _, isList := strings.Cut(name, "[")
	_, repeated := f.values[name]
	label := "The " + strings.ReplaceAll(field, "_", " ") + " field "
	switch {
	case name == "":
		f.bad.Add("form", "Each part of the form must have a name.")
	case name == f.fileField:
		f.fileProblem = &cert.Problem{Field: cert.FieldFile, Code: cert.CodeNotFile}
	case isList && field == f.fileField:
		f.bad.Add(field, label+"must be one file, not a list.")
	case !slices.Contains(f.fields, field):
	case isList:
		f.bad.Add(field, label+"must be text, not a list.")
	case isFile:
		f.bad.Add(field, label+"must be text, not a file.")
	case repeated:
		f.bad.Add(field, "The field is given more than once.")
	default:
		f.values[field] = value
	}
}
