package application

import (
	"context"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/recipient"
)

// Exported returns the applications of a person for the export of the person's data. The result does not
// contain the notes and the names of reviewers.
func (s *Service) Exported(ctx context.Context, userID int64) ([]recipient.ExportedApplication, error) {
	list, err := s.OfApplicant(ctx, userID)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, a := range list {
		ids = append(ids, a.InstitutionID)
	}
	institutions, err := account.Summaries(ctx, s.db, ids)
	if err != nil {
		return nil, err
	}
	names := map[int64]string{}
	for _, i := range institutions {
		names[i.ID] = i.Name
	}
	exported := make([]recipient.ExportedApplication, len(list))
	for i, a := range list {
		x := recipient.ExportedApplication{
			UUID: a.UUID, ReferenceID: a.ReferenceID, Institution: names[a.InstitutionID], Offer: a.OfferName, FullName: a.FullName, Email: a.Email,
			Status: string(a.Status), Answers: []recipient.ExportedAnswer{}, Steps: []recipient.ExportedStep{}, Files: []recipient.ExportedFile{},
			CreatedAt: a.CreatedAt, DecidedAt: a.DecidedAt,
		}
		for j := range a.Fields {
			if f := &a.Fields[j]; f.Type != Upload {
				x.Answers = append(x.Answers, recipient.ExportedAnswer{Question: f.Label, Answer: a.Values[f.Key]})
			}
		}
		events, err := s.Timeline(ctx, a)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			x.Steps = append(x.Steps, recipient.ExportedStep{At: e.At, Action: e.Action, Text: e.Text})
		}
		for _, f := range a.Files {
			file := recipient.ExportedFile{Name: f.Name}
			if !f.Deleted {
				file.Open = func(ctx context.Context) (*cert.Content, error) {
					content, _, err := s.OpenOwnFile(ctx, userID, a.UUID, f.ID)
					return content, err
				}
			}
			x.Files = append(x.Files, file)
		}
		exported[i] = x
	}
	return exported, nil
}
