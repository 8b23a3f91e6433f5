package application

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

// MaxMany is the maximum number of applications that are decided in one task.
const MaxMany = 5000

// Selected is an application that a reviewer selected, with the revision that the reviewer saw.
type Selected struct {
	UUID     string `json:"uuid"`
	Revision int64  `json:"revision"`
}

// Decision is a step that a reviewer takes for many applications.
type Decision string

// These are the decisions. DecideApprove uses the defaults of Approval. DecideHold asks for information.
const (
	DecideClaim   Decision = "claim"
	DecideApprove Decision = "approve"
	DecideHold    Decision = "hold"
	DecideReject  Decision = "reject"
)

// Decisions are all decisions.
var Decisions = []Decision{DecideClaim, DecideApprove, DecideHold, DecideReject}

// Check returns the text of a decision in its stored form: the question of a hold, the reason of a
// rejection, or "" for the other decisions. The error is fault.Invalid with cert.Problems of the field
// text.
func (d Decision) Check(text string) (string, error) {
	var bad cert.Problems
	switch d {
	case DecideClaim, DecideApprove:
		return "", nil
	case DecideHold:
		text = limited(&bad, "text", text, maxHold, true)
	case DecideReject:
		text = checkField(&bad, cert.FieldReason, text)
		for i := range bad {
			bad[i].Field = "text"
		}
	}
	return text, bad.Err()
}

// Decide takes a decision about one application. The errors are those of Claim, Approve, Hold and Reject.
func (s *Service) Decide(ctx context.Context, r Reviewer, uuid string, d Decision, text string) (*Application, error) {
	switch d {
	case DecideClaim:
		return s.Claim(ctx, r, uuid)
	case DecideApprove:
		return s.Approve(ctx, r, uuid, Approval{})
	case DecideHold:
		return s.Hold(ctx, r, uuid, Information, text)
	case DecideReject:
		return s.Reject(ctx, r, uuid, text, "")
	}
	return nil, fault.OfField("decision", "The decision must be claim, approve, hold or reject.")
}

// Select returns the applications of a list in its order, at most MaxMany. The range of the filter is
// ignored. The error is fault.Invalid for a filter that is not valid.
func (s *Service) Select(ctx context.Context, institutionID int64, f Filter) ([]Selected, error) {
	f.Range = listing.Range{Page: 1, PerPage: 1}
	v, err := s.selection(ctx, institutionID, f)
	if err != nil {
		return nil, err
	}
	rows, err := s.db.QueryContext(ctx, `SELECT a.uuid, a.revision`+tables+v.Where+v.order(false)+fmt.Sprintf(` LIMIT %d`, MaxMany), v.Args...)
	if err != nil {
		return nil, fmt.Errorf("selecting applications: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (one Selected, err error) {
		err = rows.Scan(&one.UUID, &one.Revision)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("selecting applications: %w", err)
	}
	return list, nil
}

// ByUUIDs returns applications of an institution by their UUIDs. Unknown UUIDs are not in the result.
func (s *Service) ByUUIDs(ctx context.Context, institutionID int64, uuids []string) (map[string]*Application, error) {
	found := make(map[string]*Application, len(uuids))
	if len(uuids) == 0 {
		return found, nil
	}
	args := []any{institutionID}
	for _, id := range uuids {
		args = append(args, id)
	}
	list, err := s.all(ctx, `WHERE a.institution_id = $1 AND a.uuid IN (`+db.Placeholders(2, len(uuids))+`)`, args...)
	for _, a := range list {
		found[a.UUID] = a
	}
	return found, err
}

// Refusal is an error of Decide in the form in which it is stored. Only one of its fields is set.
type Refusal struct {
	Code     string        `json:"code,omitempty"`
	Problems cert.Problems `json:"problems,omitempty"`
	Message  string        `json:"message,omitempty"`
}

// refusals maps codes to errors of Decide.
var refusals = map[string]error{
	"not_found": errNotFound, "state": errState, "changed": errChanged, "reviewer": ErrReviewer, "four_eyes": ErrFourEyes, "not_claimed": ErrNotClaimed,
}

// refusalKinds are the kinds of faults that refuse a decision. After any other error, such as an error of
// the database, the decision may succeed later.
var refusalKinds = []fault.Kind{fault.Invalid, fault.BadRequest, fault.Forbidden, fault.NotFound, fault.Conflict}

// RefusalOf returns an error of Decide as a refusal, or nil if the decision may succeed later.
func RefusalOf(err error) *Refusal {
	for code, known := range refusals {
		if errors.Is(err, known) {
			return &Refusal{Code: code}
		}
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || !slices.Contains(refusalKinds, e.Kind) {
		return nil
	}
	if problems := cert.ProblemsOf(err); problems != nil {
		return &Refusal{Problems: problems}
	}
	if e.Message == "" && len(e.Fields) > 0 {
		return &Refusal{Message: e.Fields[0].Messages[0]}
	}
	return &Refusal{Message: e.Message}
}

// Err returns the error of a refusal.
func (r *Refusal) Err() error {
	if known, ok := refusals[r.Code]; ok {
		return known
	}
	if err := r.Problems.Err(); err != nil {
		return err
	}
	return fault.New(fault.Invalid, r.Message)
}
