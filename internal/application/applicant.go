package application

import (
	"context"
	"time"

	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
)

// ofApplicant returns a change by the applicant.
func ofApplicant(t trigger, a *Application) change {
	return change{step: stepOf(t), by: Person{ID: a.ApplicantID, Type: string(audit.User), Name: a.FullName}, role: applicant}
}

// Answer stores the answer to the hold that began at the time since. The files were stored by Receive. The
// error is fault.NotFound if the person has no such application, fault.BadRequest if it has no hold that waits
// for an answer, ErrAsked if it has another hold, and fault.Conflict if it has changed in the meantime. If the
// text or the files are not valid, it is fault.Invalid with cert.Problems of the fields answer and
// files.answer.
func (s *Service) Answer(ctx context.Context, userID int64, uuid string, since time.Time, text string, files []*cert.File) (*Application, error) {
	a, err := s.ByApplicant(ctx, userID, uuid)
	if err != nil {
		return nil, err
	}
	if a.Hold != nil && a.Hold.AnsweredAt == nil && !a.Hold.Since.Equal(since) {
		return nil, ErrAsked
	}
	var bad cert.Problems
	text = limited(&bad, "answer", text, maxHold, len(files) == 0)
	if n := len(a.Files) + len(files); len(files) > 0 && n > MaxFiles {
		add(&bad, FileOf(answerKey), CodeFiles, MaxFiles)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	c := ofApplicant(triggerAnswer, a)
	c.text = text
	c.set = []column{{"answer", text}, {"answered_at", db.Micros(s.moment())}, {"hold_until", nil}}
	c.record = s.updateRecord(ctx, uuid)
	c.files = func(tx *db.Tx, now time.Time) error {
		for _, f := range files {
			if _, err := insertFileTx(ctx, tx, a.InstitutionID, forApplication(a.id), answerKey, f, now); err != nil {
				return err
			}
		}
		return nil
	}
	a, err = s.apply(ctx, a, c)
	return forApplicant(a), err
}

// WithdrawOwn withdraws an application of a person. The error is fault.NotFound if the person has no such
// application, fault.BadRequest if the application cannot be withdrawn any more, and fault.Conflict if it
// has changed in the meantime.
func (s *Service) WithdrawOwn(ctx context.Context, userID int64, uuid string) (*Application, error) {
	a, err := s.ByApplicant(ctx, userID, uuid)
	if err != nil {
		return nil, err
	}
	c := ofApplicant(triggerWithdraw, a)
	c.record = s.closeRecord(ctx, uuid, cert.Withdrawn, "")
	a, err = s.apply(ctx, a, c)
	return forApplicant(a), err
}
