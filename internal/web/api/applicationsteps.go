package api

import (
	"context"
	"net/http"

	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// step performs a step of a review.
type step func(ctx context.Context, r application.Reviewer, uuid string) (*application.Application, error)

// stepReader reads the body of a request, and then calls do with the step.
type stepReader func(w http.ResponseWriter, x *exchange, do func(step) error) error

// applicationStep returns an endpoint that performs a step. text is the message of its response.
func (a *API) applicationStep(text string, read stepReader) endpoint {
	return func(w http.ResponseWriter, c *call) error {
		// For an unknown record the status is 404, even if the request has other errors.
		found, slug, err := a.findApplication(c)
		if err != nil {
			return err
		}
		x, err := a.begin(c)
		if err != nil {
			return err
		}
		defer x.release()
		by := application.Reviewer{
			Institution: c.institution, Person: application.Person{ID: c.token.ID, Type: "token", Name: c.token.Name},
			Then: x.withApplication(http.StatusOK, text, slug),
		}
		err = read(w, x, func(do step) error {
			_, err := do(c.Context(), by, found.UUID)
			if fault.Is(err, fault.BadRequest) {
				// The API contract has one message for all these errors.
				err = fault.Wrap(fault.BadRequest, "Invalid operation", err)
			}
			return err
		})
		return x.end(w, err)
	}
}

// bare returns the reader of a step that needs no body.
func bare(s step) stepReader {
	return func(_ http.ResponseWriter, x *exchange, do func(step) error) error {
		if err := x.complete(); err != nil {
			return err
		}
		return do(s)
	}
}

// readHold reads {"kind": "...", "text": "..."}.
func (a *API) readHold(w http.ResponseWriter, x *exchange, do func(step) error) error {
	var fields struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	}
	if err := readJSON(w, x, &fields); err != nil {
		return err
	}
	return do(func(ctx context.Context, r application.Reviewer, uuid string) (*application.Application, error) {
		return a.Applications.Hold(ctx, r, uuid, application.HoldKind(fields.Kind), fields.Text)
	})
}

// readRejection reads {"reason": "...", "note": "..."}.
func (a *API) readRejection(w http.ResponseWriter, x *exchange, do func(step) error) error {
	var fields struct {
		Reason string `json:"reason"`
		Note   string `json:"note"`
	}
	if err := readJSON(w, x, &fields); err != nil {
		return err
	}
	return do(func(ctx context.Context, r application.Reviewer, uuid string) (*application.Application, error) {
		return a.Applications.Reject(ctx, r, uuid, fields.Reason, fields.Note)
	})
}

// approvalFields are the names of the text fields of an approval.
var approvalFields = []string{"certificate_title", "issue_date", "expires_on", "details"}

// readApproval reads an approval. The body is empty, a JSON object, or a form, which can have a file.
func (a *API) readApproval(w http.ResponseWriter, x *exchange, do func(step) error) error {
	r := x.call.Request
	switch mediaType(r) {
	case "application/json":
		var fields struct {
			Title     string `json:"certificate_title"`
			IssueDate string `json:"issue_date"`
			ExpiresOn string `json:"expires_on"`
			Details   string `json:"details"`
		}
		if err := readJSON(w, x, &fields); err != nil {
			return err
		}
		return do(a.approval(map[string]string{
			"certificate_title": fields.Title, "issue_date": fields.IssueDate, "expires_on": fields.ExpiresOn, "details": fields.Details,
		}, nil, nil))
	case "":
		if r.ContentLength != 0 {
			return errFormOrJSON
		}
		return bare(a.approval(nil, nil, nil))(w, x, do)
	default:
		form, err := openUpload(w, r, "certificate_file", approvalFields...)
		if err != nil {
			return err
		}
		return form.receive(x, func(file *cert.File) error { return do(a.approval(form.values, file, form.fileProblem)) })
	}
}

// approval returns the step that approves an application. If problem is not nil, the step returns it as its
// error.
func (a *API) approval(fields map[string]string, file *cert.File, problem *cert.Problem) step {
	return func(ctx context.Context, r application.Reviewer, uuid string) (*application.Application, error) {
		if problem != nil {
			return nil, cert.Problems{*problem}.Err()
		}
		return a.Applications.Approve(ctx, r, uuid, application.Approval{
			Title: fields["certificate_title"], IssueDate: fields["issue_date"], Details: fields["details"], ExpiresOn: fields["expires_on"], File: file,
		})
	}
}
