package application

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/quota"
	"github.com/certvault/certvault/internal/template"
)

// maxHold is the maximum length of the text of a hold and of an answer, in code points.
const maxHold = 2000

// column is a column that a step sets.
type column struct {
	name  string
	value any
}

// change is a step that a person, a token or the vault takes for an application.
type change struct {
	step *step
	by   Person
	role role
	// revision is the revision that the person saw, or 0.
	revision int64
	// set are the columns that the step sets, and text is the text in the timeline.
	set  []column
	text string
	// record changes the application's row in the table certificates. It may be nil.
	record func(tx *db.Tx) error
	// files stores the files of an answer. It may be nil.
	files func(tx *db.Tx, now time.Time) error
	then  TxFunc
}

// apply takes a step of an application. The error is errState if the state of a does not allow the step,
// and errChanged if the application has changed since a was read.
func (s *Service) apply(ctx context.Context, a *Application, c change) (*Application, error) {
	if c.revision != 0 && c.revision != a.Revision {
		return nil, errChanged
	}
	if err := c.step.check(a, c.role); err != nil {
		return nil, err
	}
	var changed *Application
	err := s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		changed, err = s.applyTx(ctx, tx, a, &c)
		return err
	})
	if errors.Is(err, cert.ErrInvalidState) {
		return nil, errChanged
	}
	if err != nil {
		return nil, fmt.Errorf("the step %s of an application: %w", c.step.Trigger, err)
	}
	return changed, nil
}

// applyTx takes a step in a transaction. The caller must check that the state allows the step.
func (s *Service) applyTx(ctx context.Context, tx *db.Tx, a *Application, c *change) (*Application, error) {
	now := s.moment()
	next := c.step.To
	if next == none {
		next = a.state
	}
	set := append([]column{{"status", string(next)}}, c.set...)
	if !slices.Contains(openStates, next) {
		o, err := offer(ctx, tx, a.InstitutionID, a.OfferUUID)
		if err != nil {
			return nil, err
		}
		set = append(set, column{"decided_at", db.Micros(now)}, column{"delete_at", db.Micros(now.AddDate(0, 0, o.RetentionDays))}, column{"hold_until", nil})
		set = append(set, personColumns("decided_by", c.by)...)
	}
	if err := setTx(ctx, tx, a, set); err != nil {
		return nil, err
	}
	if c.files != nil {
		if err := c.files(tx, now); err != nil {
			return nil, err
		}
	}
	if c.record != nil {
		if err := c.record(tx); err != nil {
			return nil, err
		}
	}
	changed, err := byUUID(ctx, tx, a.InstitutionID, a.UUID)
	if err != nil {
		return nil, err
	}
	return changed, s.finishTx(ctx, tx, c.step, changed, c.by, c.text, c.then)
}

// setTx changes columns of an application. The error is errChanged if the application has changed since a
// was read.
func setTx(ctx context.Context, tx *db.Tx, a *Application, set []column) error {
	args := []any{a.InstitutionID, a.id, a.Revision}
	var b strings.Builder
	for _, x := range set {
		args = append(args, x.value)
		fmt.Fprintf(&b, ", %s = $%d", x.name, len(args))
	}
	res, err := tx.ExecContext(ctx, `UPDATE applications SET revision = revision + 1`+b.String()+` WHERE institution_id = $1 AND id = $2 AND revision = $3`, args...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, error(errChanged))
	}
	return nil
}

// personColumns returns the columns of a person, whose names begin with prefix.
func personColumns(prefix string, p Person) []column {
	if p.Type == "" {
		return []column{{prefix + "_type", nil}, {prefix + "_id", nil}, {prefix + "_name", nil}}
	}
	return []column{{prefix + "_type", p.Type}, {prefix + "_id", p.ID}, {prefix + "_name", p.Name}}
}

// finishTx records a step in the timeline and in the audit log, queues its mail, and calls the function then.
func (s *Service) finishTx(ctx context.Context, tx *db.Tx, step *step, a *Application, by Person, text string, then TxFunc) error {
	now := s.moment()
	if err := eventTx(ctx, tx, a, step.Action, by, text, now); err != nil {
		return err
	}
	if err := recordTx(ctx, tx, step.Audit, a, now, nil); err != nil {
		return err
	}
	if step.Mail != "" {
		if err := s.mailTx(ctx, tx, step.Mail, a); err != nil {
			return err
		}
	}
	if then == nil {
		return nil
	}
	return then(ctx, tx, a)
}

func recordTx(ctx context.Context, tx *db.Tx, action audit.Action, a *Application, now time.Time, detail audit.Detail) error {
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: a.InstitutionID, At: now, Action: action, Subject: audit.Subject{Type: "application", ID: a.UUID, Name: a.ReferenceID}, Detail: detail,
	})
}

// byReviewer returns an application and its offer. The error is ErrReviewer if the member may not review
// the application.
func (s *Service) byReviewer(ctx context.Context, r Reviewer, uuid string) (*Application, *Offer, error) {
	a, err := s.ByUUID(ctx, r.Institution.ID, uuid)
	if err != nil {
		return nil, nil, err
	}
	o, err := s.Offer(ctx, r.Institution.ID, a.OfferUUID)
	if err != nil {
		return nil, nil, err
	}
	if r.role() == reviewer {
		if ok, err := s.ReviewedBy(ctx, o, r.Person.ID); err != nil || !ok {
			return nil, nil, cmp.Or(err, error(ErrReviewer))
		}
	}
	return a, o, nil
}

func (r *Reviewer) role() role {
	if r.Person.Type == string(audit.Token) {
		return apiToken
	}
	return reviewer
}

// of returns a change by a reviewer.
func (r *Reviewer) of(t trigger) change {
	return change{step: stepOf(t), by: r.Person, role: r.role(), revision: r.Revision, then: r.Then}
}

// updateRecord returns change.record for a step that does not change the status of the record.
func (s *Service) updateRecord(ctx context.Context, uuid string) func(tx *db.Tx) error {
	return func(tx *db.Tx) error {
		_, err := s.certs.UpdateTx(ctx, tx, uuid)
		return err
	}
}

// Claim records that a reviewer reviews a pending application.
//
// The errors of Claim, Hold, Release, Approve, Reject and Withdraw are faults. The kind is NotFound if
// there is no such application, BadRequest if its state does not allow the step, and Conflict if it has
// changed in the meantime. It is Forbidden if the member is not a reviewer of the offer, and Invalid with
// cert.Problems for an input that is not valid.
func (s *Service) Claim(ctx context.Context, r Reviewer, uuid string) (*Application, error) {
	a, _, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	c := r.of(triggerClaim)
	c.set = append(personColumns("claimed_by", r.Person), column{"claimed_at", db.Micros(s.moment())})
	c.record = func(tx *db.Tx) error {
		_, err := s.certs.ClaimTx(ctx, tx, uuid)
		return err
	}
	return s.apply(ctx, a, c)
}

// Hold asks the applicant a question, which replaces an earlier question. If the applicant does not answer
// within the offer's HoldDays, the application expires. Problems have the fields hold and text.
func (s *Service) Hold(ctx context.Context, r Reviewer, uuid string, kind HoldKind, text string) (*Application, error) {
	a, o, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	var bad cert.Problems
	if !slices.Contains(HoldKinds, kind) {
		add(&bad, "hold", CodeHoldKind, 0)
	}
	text = limited(&bad, "text", text, maxHold, true)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	now := s.moment()
	c := r.of(triggerHold)
	c.text = text
	c.set = []column{
		{"hold_kind", string(kind)}, {"hold_text", text}, {"held_at", db.Micros(now)}, {"hold_until", db.Micros(now.AddDate(0, 0, o.HoldDays))},
		{"answer", nil}, {"answered_at", nil},
	}
	c.record = s.updateRecord(ctx, uuid)
	return s.apply(ctx, a, c)
}

// noHold are the columns of an application without a hold.
var noHold = []column{{"hold_kind", nil}, {"hold_text", nil}, {"held_at", nil}, {"hold_until", nil}, {"answer", nil}, {"answered_at", nil}}

// Release ends the hold of an application, with or without an answer. The timeline keeps the question and
// the answer.
func (s *Service) Release(ctx context.Context, r Reviewer, uuid string) (*Application, error) {
	a, _, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	c := r.of(triggerRelease)
	c.set, c.record = noHold, s.updateRecord(ctx, uuid)
	return s.apply(ctx, a, c)
}

// Reject rejects an application. The applicant sees the reason. No one outside the institution sees the
// note. Problems have the fields cert.FieldReason and cert.FieldNote.
func (s *Service) Reject(ctx context.Context, r Reviewer, uuid, reason, note string) (*Application, error) {
	a, _, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	var bad cert.Problems
	reason, note = checkField(&bad, cert.FieldReason, reason), checkField(&bad, cert.FieldNote, note)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	c := r.of(triggerReject)
	c.text, c.set = reason, []column{{"reason", reason}}
	if note != "" {
		c.set = append(c.set, column{"note", note})
	}
	c.record = s.closeRecord(ctx, uuid, cert.Rejected, reason)
	return s.apply(ctx, a, c)
}

// closeRecord returns change.record for a step that ends an application without a certificate.
func (s *Service) closeRecord(ctx context.Context, uuid string, to Status, reason string) func(tx *db.Tx) error {
	return func(tx *db.Tx) error {
		_, err := s.certs.CloseTx(ctx, tx, uuid, to, reason)
		return err
	}
}

// checkField returns a text in its stored form, and adds its problem to bad.
func checkField(bad *cert.Problems, f cert.Field, text string) string {
	valid, problem := f.Check(text)
	if problem != nil {
		*bad = append(*bad, *problem)
	}
	return valid
}

// Withdraw withdraws an application when the applicant has asked the institution to do so.
func (s *Service) Withdraw(ctx context.Context, r Reviewer, uuid string) (*Application, error) {
	a, _, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	c := r.of(triggerWithdraw)
	c.record = s.closeRecord(ctx, uuid, cert.Withdrawn, "")
	return s.apply(ctx, a, c)
}

// SetNote changes the private note of an application in any state.
func (s *Service) SetNote(ctx context.Context, r Reviewer, uuid, note string) (*Application, error) {
	a, _, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	var bad cert.Problems
	note = checkField(&bad, cert.FieldNote, note)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	if r.Revision != 0 && r.Revision != a.Revision {
		return nil, errChanged
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		if err := setTx(ctx, tx, a, []column{{"note", optional(note)}}); err != nil {
			return err
		}
		if a, err = byUUID(ctx, tx, a.InstitutionID, uuid); err != nil {
			return err
		}
		if err := recordTx(ctx, tx, audit.ApplicationNoted, a, s.moment(), nil); err != nil || r.Then == nil {
			return err
		}
		return r.Then(ctx, tx, a)
	})
	if err != nil {
		return nil, fmt.Errorf("changing the note of an application: %w", err)
	}
	return a, nil
}

// Approve approves an application. Its certificate is then processed, or waits for its signatories. If the
// offer requires two people, the error is ErrNotClaimed if no one has claimed the application, and
// ErrFourEyes if the reviewer has claimed it. The error is fault.Forbidden if a limit of the institution is
// reached. Problems have the fields of cert.Field, and FieldOf for answers that do not fit the template.
func (s *Service) Approve(ctx context.Context, r Reviewer, uuid string, in Approval) (*Application, error) {
	a, o, err := s.byReviewer(ctx, r, uuid)
	if err != nil {
		return nil, err
	}
	c := r.of(triggerApprove)
	if r.Revision != 0 && r.Revision != a.Revision {
		return nil, errChanged
	}
	if err := c.step.check(a, c.role); err != nil {
		return nil, err
	}
	if o.FourEyes {
		switch {
		case a.ClaimedBy.Type == "":
			return nil, ErrNotClaimed
		case a.ClaimedBy.Type == r.Person.Type && a.ClaimedBy.ID == r.Person.ID:
			return nil, ErrFourEyes
		}
	}
	acceptance, err := s.acceptance(ctx, r.Institution, o, a, in)
	if err != nil {
		return nil, err
	}
	c.record = func(tx *db.Tx) error {
		var size int64
		if acceptance.File != nil {
			size = acceptance.File.Size
		}
		if err := quota.CheckTx(ctx, tx, r.Institution, s.now(), 1, size); err != nil {
			return err
		}
		_, err := s.certs.AcceptTx(ctx, tx, uuid, *acceptance)
		return err
	}
	return s.apply(ctx, a, c)
}

// acceptance checks the texts of an approval, and returns its certificate.
func (s *Service) acceptance(ctx context.Context, inst *account.Institution, o *Offer, a *Application, in Approval) (*cert.Acceptance, error) {
	out := &cert.Acceptance{Title: in.Title, FullName: a.FullName, IssueDate: in.IssueDate, Details: in.Details, ExpiresOn: in.ExpiresOn, File: in.File}
	if o.TemplateID == "" || in.File != nil {
		out.Title = cmp.Or(strings.TrimSpace(in.Title), a.Title)
		var bad cert.Problems
		out.Check(&bad, a.Email, s.now())
		return out, bad.Err()
	}
	p, err := s.templates.Prepare(ctx, inst, o.TemplateID, s.entry(ctx, o, a, in))
	if err != nil {
		return nil, ofAnswers(a.Fields, err)
	}
	out.Title, out.FullName, out.IssueDate, out.Details = p.Text.Title, p.Text.FullName, p.Text.IssueDate, p.Text.Details
	out.ExpiresOn = p.Text.ExpiresOn
	// The signatories of the template, if it has any, approve the certificate after the reviewer.
	out.Template, out.BaseKey, out.Signatories = &p.Use, p.BaseKey, p.Signatories
	return out, nil
}

// entry returns the certificate of an approval as an entry for the template. If the approval and the
// template have no title, the entry has the title of the application.
func (s *Service) entry(ctx context.Context, o *Offer, a *Application, in Approval) template.Entry {
	e := a.Entry(in)
	if e.Title == "" {
		if t, err := s.templates.ByUUID(ctx, o.InstitutionID, o.TemplateID); err != nil || t.Published == nil || t.Published.Layout.Title == "" {
			e.Title = a.Title
		}
	}
	return e
}

// Entry returns the certificate of an approval as an entry for a template. The entry has the answers to all
// fields with a Column, even if the template does not have the column.
func (a *Application) Entry(in Approval) template.Entry {
	return template.Entry{
		FullName: a.FullName, Email: a.Email, Title: strings.TrimSpace(in.Title), IssueDate: in.IssueDate, Details: in.Details,
		ExpiresOn: in.ExpiresOn, Values: columnsOf(a.Fields, a.Values),
	}
}
