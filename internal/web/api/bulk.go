package api

import (
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"

	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

const (
	// maxBulk is the largest body of a bulk upload in bytes.
	maxBulk = 64 << 20
	// maxBulkParts bounds the number of fields: eight for each of 5,000 entries.
	maxBulkParts = 40_000
	// maxBulkValue bounds one value in bytes. It is far above the longest valid value, so that
	// validation reports a text that is too long.
	maxBulkValue = 16 << 10
)

// accepted is the response to a bulk upload.
type accepted struct {
	BatchID string `json:"batch_id"`
	Total   int    `json:"total"`
	Status  string `json:"status"`
}

// bulk accepts the entries of a batch, which refer to files that were staged before.
func (a *API) bulk(w http.ResponseWriter, c *call) error {
	draft := a.Batches.NewDraft()
	defer draft.Close()
	in := &bulkInput{draft: draft}
	parse, broken, err := in.parser(c.Request)
	if err != nil {
		return err
	}
	read := func(p *fingerprint) error {
		in.print = p
		if err := readBody(c, maxBulk, broken, parse); err != nil {
			return err
		}
		p.end()
		return nil
	}
	return a.once(w, c, read, func(answer answerTx) error {
		_, err := a.Batches.Submit(c.Context(), batch.Submission{
			Institution: c.institution, Creator: cert.Actor{Type: "token", ID: c.token.ID, Name: c.token.Name}, Context: cert.BulkUpload, Draft: draft,
			Then: func(ctx context.Context, tx *db.Tx, made *batch.Batch) error {
				return answer(ctx, tx, http.StatusAccepted, message{
					Message: "Bulk upload accepted and is being processed.",
					Data:    accepted{BatchID: made.UUID, Total: made.Total, Status: string(made.Status())},
				})
			},
		})
		return err
	})
}

// bulkInput reads the body of a bulk upload into a draft, field by field.
type bulkInput struct {
	draft *batch.Draft
	print *fingerprint
	parts int
}

// parser returns the reader for the content type of the request, and the function that words its
// errors.
func (in *bulkInput) parser(r *http.Request) (parse func(io.Reader) error, broken func(error) error, err error) {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		mediaType = ""
	}
	switch mediaType {
	case "multipart/form-data":
		boundary, err := formBoundary(r)
		return func(body io.Reader) error { return in.multipart(body, boundary) }, malformed, err
	case "application/x-www-form-urlencoded":
		return in.urlencoded, badForm, checkEncoding(r)
	case "application/json":
		return in.json, badJSON, checkEncoding(r)
	default:
		return nil, nil, fault.New(fault.Unsupported,
			"The request must be multipart/form-data, application/x-www-form-urlencoded or application/json.")
	}
}

var errParts = fault.New(fault.Invalid, fmt.Sprintf("The request has more than %d fields.", maxBulkParts))

// next counts a field.
func (in *bulkInput) next() error {
	if in.parts == maxBulkParts {
		return errParts
	}
	in.parts++
	return nil
}

func (in *bulkInput) multipart(body io.Reader, boundary string) error {
	return eachPart(body, boundary, func(part *multipart.Part) error {
		if err := in.next(); err != nil {
			return err
		}
		return in.part(part)
	})
}

func (in *bulkInput) part(part *multipart.Part) error {
	name := part.FormName()
	if name == "" {
		return fault.New(fault.Invalid, "A part of the form has no name.")
	}
	n := readName(name)
	if !n.text() {
		return in.name(n)
	}
	if part.FileName() != "" {
		return in.draft.NotText(n.index, n.field)
	}
	value, err := io.ReadAll(io.LimitReader(part, maxBulkValue+1))
	if err == nil {
		// Skip its rest, which must not be parsed as the next header.
		_, err = io.Copy(io.Discard, part)
	}
	if err != nil {
		return malformed(err)
	}
	return in.set(n, value)
}

// note adds a field to the fingerprint, by its position in the data and not by its spelling, so
// that equal content in another form has the same fingerprint.
func (in *bulkInput) note(index int, field string, value []byte) {
	content, end := in.print.entry(ofField, fmt.Sprintf("entries.%d.%s", index, field))
	_, _ = content.Write(value) // Write of a hash never fails
	end()
}

// set sets the value of a field.
func (in *bulkInput) set(n fieldName, value []byte) error {
	in.note(n.index, n.field, value)
	if len(value) > maxBulkValue {
		return in.draft.TooLong(n.index, n.field)
	}
	return in.draft.Set(n.index, n.field, string(value))
}

// name records a problem of a field name.
func (in *bulkInput) name(n fieldName) error {
	in.note(n.index, n.field+n.key, []byte{byte(n.kind)})
	switch n.kind {
	case nestedField:
		return in.draft.NotText(n.index, n.field)
	case wholeEntry:
		return in.draft.NotEntry(n.index, notEntry)
	case entryField:
		return in.draft.Entry(n.index)
	case strayName:
		in.draft.Stray(n.key, n.problem)
	case otherName:
	}
	return nil
}
