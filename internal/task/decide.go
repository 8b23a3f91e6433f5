package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/application"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// Decides reports whether tasks of this kind decide applications. Tasks of other kinds change certificates.
func (k Kind) Decides() bool { return slices.Contains(application.Decisions, application.Decision(k)) }

// Decisions is the data of a task that decides applications.
type Decisions struct {
	Decision     application.Decision
	Applications []application.Selected
	// Text is the question of a hold or the reason of a rejection.
	Text string
	// Member is the id of the member who decides.
	Member int64
}

// decisions are the applications of a task and the member who decides them, as they are stored.
type decisions struct {
	Applications []application.Selected `json:"applications"`
	Member       int64                  `json:"member"`
}

// Decide starts a task that decides n.Applications in this order. An application is decided only if it has
// not changed since the reviewer saw it, and if the reviewer may still decide it. The error is
// fault.BadRequest for an unknown decision. It is fault.Invalid if there are no or too many applications,
// if an id or a revision is not valid, or if the text is not valid for the decision.
func (s *Service) Decide(ctx context.Context, institutionID int64, n Decisions) (*Task, error) {
	if !Kind(n.Decision).Decides() {
		return nil, fault.New(fault.BadRequest, "Invalid operation")
	}
	text, err := n.Decision.Check(n.Text)
	if err != nil {
		return nil, err
	}
	list, err := checkApplications(n.Applications)
	if err != nil {
		return nil, err
	}
	return s.start(ctx, institutionID, Request{Kind: Kind(n.Decision), Reason: text}, decisions{list, n.Member})
}

// checkApplications returns the selected applications, each once, with their ids in the stored form.
func checkApplications(selected []application.Selected) ([]application.Selected, error) {
	problem := cert.Problem{Field: cert.FieldSelected}
	switch {
	case len(selected) == 0:
		problem.Code = cert.CodeRequired
		return nil, cert.Problems{problem}.Err()
	case len(selected) > application.MaxMany:
		problem.Code, problem.Limit = cert.CodeTooMany, application.MaxMany
		return nil, cert.Problems{problem}.Err()
	}
	list, seen := make([]application.Selected, 0, len(selected)), map[string]bool{}
	for _, one := range selected {
		u, err := uuid.Parse(one.UUID)
		if err != nil || one.Revision < 1 {
			problem.Code = cert.CodeNotCertificate
			return nil, cert.Problems{problem}.Err()
		}
		if one.UUID = u.String(); !seen[one.UUID] {
			seen[one.UUID], list = true, append(list, one)
		}
	}
	return list, nil
}

// decideAll decides the applications of a task that have no result, until the task is finished or workTime
// has passed. It updates d instead of reading the task for each application, because the list of
// applications may be long.
func (s *Service) decideAll(ctx context.Context, d *Task) (finished bool, err error) {
	inst, err := account.InstitutionByID(ctx, s.db, d.institutionID)
	if err != nil {
		return false, err
	}
	for began := s.now(); s.now().Sub(began) < workTime; {
		finished, err := s.decideNext(ctx, inst, d)
		if errors.Is(err, cert.ErrInvalidState) {
			return false, nil // another worker decided this application
		}
		if finished || err != nil {
			return finished, err
		}
	}
	return false, nil
}

// decideNext decides the next application of a task. The decision and its result are stored in one
// transaction, so that a task that continues after a crash decides no application twice.
func (s *Service) decideNext(ctx context.Context, inst *account.Institution, d *Task) (finished bool, err error) {
	at := d.Total()
	one := d.decisions.Applications[at]
	next := one.UUID
	if at+1 == len(d.decisions.Applications) {
		next = ""
	}
	result := Result{UUID: one.UUID, Outcome: Succeeded}
	var stored error
	storeTx := func(ctx context.Context, tx *db.Tx) error {
		stored = s.advanceTx(ctx, tx, d, next, []Result{result})
		return stored
	}
	err = s.decideOne(ctx, inst, d, one, func(ctx context.Context, tx *db.Tx, _ *application.Application) error { return storeTx(ctx, tx) })
	if err != nil {
		if stored != nil || ctx.Err() != nil {
			return false, err
		}
		result.Outcome, result.Refusal = Skipped, application.RefusalOf(err)
		if result.Refusal == nil {
			s.log.ErrorContext(ctx, "an application of a task could not be decided", slog.Int64("task", d.id), slog.Any("error", err))
			result.Outcome = Failed
		}
		if err := s.db.Tx(ctx, func(tx *db.Tx) error { return storeTx(ctx, tx) }); err != nil {
			return false, err
		}
	}
	d.position = next
	switch result.Outcome {
	case Succeeded:
		d.Succeeded++
	case Skipped:
		d.Skipped++
	case Failed:
		d.Failed++
	}
	return next == "", nil
}

// decideOne decides one application of a task. It checks the role of the member again, because the role may
// have changed since the task was started.
func (s *Service) decideOne(ctx context.Context, inst *account.Institution, d *Task, one application.Selected, then application.TxFunc) error {
	members, err := account.PersonNames(ctx, s.db, inst.ID, []int64{d.decisions.Member})
	if err != nil {
		return err
	}
	member := members[d.decisions.Member]
	if !member.Role.Can(account.MayReview) {
		return application.ErrReviewer
	}
	r := application.Reviewer{
		Institution: inst, Person: application.Person{ID: d.decisions.Member, Type: string(audit.User), Name: member.Name}, Revision: one.Revision, Then: then,
	}
	_, err = s.applications.Decide(audit.WithActor(ctx, d.actor), r, one.UUID, application.Decision(d.Kind), d.reason)
	return err
}

// encodeRefusal returns a refusal as it is stored, and "" for nil.
func encodeRefusal(r *application.Refusal) (string, error) {
	if r == nil {
		return "", nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding a refusal: %w", err)
	}
	return string(text), nil
}

func decodeRefusal(text string) (*application.Refusal, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // most results have no refusal
	}
	r := &application.Refusal{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("reading a refusal: %w", err)
	}
	return r, nil
}

// readApplications sets the applications of results.
func (s *Service) readApplications(ctx context.Context, d *Task, list []*Result) error {
	uuids := make([]string, len(list))
	for i, r := range list {
		uuids[i] = r.UUID
	}
	found, err := s.applications.ByUUIDs(ctx, d.institutionID, uuids)
	if err != nil {
		return err
	}
	for _, r := range list {
		r.Application = found[r.UUID]
	}
	return nil
}
