package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/web/body"
)

const (
	// maxBulk is the maximum size of the body of a bulk upload in bytes.
	maxBulk = 64 << 20
	// maxBulkParts is the maximum number of fields. It allows eight fields for each of 5,000 entries.
	maxBulkParts = 40_000
	// maxBulkValue is the maximum size of one value in bytes. It is far above the maximum length of
	// a valid value, so that validation can report a value that is too long.
	maxBulkValue = 16 << 10
)

// accepted is the data of the response to a bulk upload.
type accepted struct {
	BatchID string `json:"batch_id"`
	Total   int    `json:"total"`
	Status  string `json:"status"`
}

// bulk creates a batch from entries that refer to staged files.
func (a *API) bulk(w http.ResponseWriter, c *call) error {
	draft := a.Batches.NewDraft()
	defer draft.Close()
	in := &bulkInput{draft: draft}
	read, err := in.reader(w, c.Request)
	if err != nil {
		return err
	}
	x, err := a.begin(c)
	if err != nil {
		return err
	}
	defer x.release()
	in.exchange = x
	if err = read(); err == nil {
		err = x.complete()
	}
	if err == nil {
		_, err = a.Batches.Submit(c.Context(), batch.Submission{
			Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Context: cert.BulkUpload, Draft: draft, Notify: in.notify,
			Then: func(ctx context.Context, tx *db.Tx, made *batch.Batch) error {
				return x.respondTx(ctx, tx, http.StatusAccepted, message{
					Message: "The batch was accepted and is being processed.",
					Data:    accepted{BatchID: made.UUID, Total: made.Total, Status: string(made.Status())},
				})
			},
		})
	}
	return x.end(w, err)
}

// bulkInput reads the body of a bulk upload into a draft, field by field.
type bulkInput struct {
	draft    *batch.Draft
	exchange *exchange
	fields   int

	notifyInput
}

// reader returns the function that reads the body of the request, according to its media type. The
// error is fault.Unsupported if the media type is not supported.
func (in *bulkInput) reader(w http.ResponseWriter, r *http.Request) (read func() error, err error) {
	switch mediaType(r) {
	case "multipart/form-data":
		l := limits(maxBulk, malformedForm)
		l.Parts, l.TooMany = maxBulkParts, errParts
		body.Limit(w, r, l)
		form, err := body.OpenForm(r)
		return func() error { return in.multipart(form) }, err
	case "application/x-www-form-urlencoded":
		body.Limit(w, r, limits(maxBulk, malformedPairs))
		return func() error { return in.urlencoded(r.Body) }, body.CheckEncoding(r)
	case "application/json":
		body.Limit(w, r, limits(maxBulk, malformedJSON))
		return func() error { return in.json(r.Body) }, body.CheckEncoding(r)
	default:
		return nil, fault.New(fault.Unsupported,
			"The request must be multipart/form-data, application/x-www-form-urlencoded or application/json.")
	}
}

var errParts = fault.New(fault.Invalid, fmt.Sprintf("The request has more than %d fields.", maxBulkParts))

// count counts a field of a body that is not a multipart form, and returns errParts if there are too many.
// Package body counts the parts of a multipart form.
func (in *bulkInput) count() error {
	if in.fields == maxBulkParts {
		return errParts
	}
	in.fields++
	return nil
}

func (in *bulkInput) multipart(form *body.Form) error {
	for form.Next() {
		if err := in.part(form.Part()); err != nil {
			return err
		}
	}
	return form.Err()
}

func (in *bulkInput) part(part *body.Part) error {
	name := part.FormName()
	if name == "" {
		return fault.New(fault.Invalid, "A part of the form has no name.")
	}
	if name == notifyName {
		if part.FileName() != "" {
			return errNotifyText
		}
		return in.setNotify(part.Value(maxBulkValue+1, io.Discard))
	}
	n := readName(name)
	if !n.text() {
		return in.name(n)
	}
	if part.FileName() != "" {
		return in.draft.Refuse(n.index, cert.Problem{Field: n.known(), Code: codeNotString})
	}
	return in.set(n, part.Value(maxBulkValue+1, io.Discard))
}

// fingerprint adds a field to the fingerprint of the request. The name of the field in the fingerprint does
// not depend on the media type.
func (in *bulkInput) fingerprint(index int, field string, value []byte) {
	content, end := in.exchange.field(fmt.Sprintf("entries.%d.%s", index, field))
	_, _ = content.Write(value) // writing to a hash cannot fail
	end()
}

// set stores the value of a field.
func (in *bulkInput) set(n fieldName, value []byte) error {
	in.fingerprint(n.index, n.field, value)
	if len(value) > maxBulkValue {
		return in.draft.TooLong(n.index, n.known())
	}
	return in.draft.Set(n.index, n.known(), string(value))
}

// name handles a field that is not a text field of an entry. It refuses the field, records only
// that the entry of the field exists, or ignores the field.
func (in *bulkInput) name(n fieldName) error {
	in.fingerprint(n.index, n.field+n.key, []byte{byte(n.kind)})
	switch n.kind {
	case nestedField:
		return in.draft.Refuse(n.index, cert.Problem{Field: n.known(), Code: codeNotString})
	case wholeEntry:
		return in.draft.Refuse(n.index, cert.Problem{Code: codeNotEntry})
	case entryField:
		return in.draft.Entry(n.index)
	case malformedName:
		in.draft.AddMalformed(n.key, n.problem)
	case otherName:
	}
	return nil
}
