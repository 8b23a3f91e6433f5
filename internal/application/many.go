package application

import (
	"context"

	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/fault"
)

// MaxMany is the maximum number of applications of DecideMany.
const MaxMany = 100

// DecideMany takes the same step of several applications, each in its own transaction: approve with the
// texts of the application and its offer, reject with a reason, hold with a question for information, or
// claim. An error of one application is in its result. The error of DecideMany is fault.Invalid for an
// unknown decision and for too many applications.
func (s *Service) DecideMany(ctx context.Context, r Reviewer, uuids []string, decision, text string) (*ManyResult, error) {
	take := map[string]func(uuid string) (*Application, error){
		"approve": func(uuid string) (*Application, error) { return s.Approve(ctx, r, uuid, Approval{}) },
		"reject":  func(uuid string) (*Application, error) { return s.Reject(ctx, r, uuid, text, "") },
		"hold":    func(uuid string) (*Application, error) { return s.Hold(ctx, r, uuid, Information, text) },
		"claim":   func(uuid string) (*Application, error) { return s.Claim(ctx, r, uuid) },
	}[decision]
	if take == nil {
		return nil, fault.OfField("decision", "The decision must be approve, reject, hold or claim.")
	}
	if len(uuids) > MaxMany {
		return nil, cert.Problems{{Field: cert.FieldSelected, Code: cert.CodeTooMany, Limit: MaxMany}}.Err()
	}
	r.Revision = 0
	result := &ManyResult{Results: []ManyOutcome{}}
	for _, uuid := range uuids {
		out := ManyOutcome{UUID: uuid}
		if out.Application, out.Err = take(uuid); out.Err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			// The page shows the application with its problem.
			if a, err := s.ByUUID(ctx, r.Institution.ID, uuid); err == nil {
				out.Application = a
			}
		}
		result.Results = append(result.Results, out)
	}
	return result, nil
}
