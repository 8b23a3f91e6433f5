package application

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/template"
)

// maxOpen is the maximum number of open applications of a person.
const maxOpen = 5

// Submit stores an application with the status pending. The error is fault.NotFound if the offer is not
// open, fault.Forbidden if the institution is disabled or the applicant has not verified the address,
// fault.TooMany if too many requests come from the network, and fault.Invalid with cert.Problems for an
// input that is not valid. Problems have the fields cert.FieldName, cert.FieldEmail, FieldOf, FileOf and
// "files". A problem with cert.FieldEmail has CodeOpen if the person already has an open application for
// the offer, and CodeTooManyOpen if the person already has the maximum number of open applications.
func (s *Service) Submit(ctx context.Context, in Submission) (*Application, error) {
	if err := s.allow(ctx, in.Applicant); err != nil {
		return nil, err
	}
	n, err := s.prepare(ctx, in, fileCounts(in.Files))
	if err != nil {
		return nil, err
	}
	var a *Application
	err = s.db.Tx(ctx, func(tx *db.Tx) (err error) {
		a, err = s.submitTx(ctx, tx, n, func(id int64, now time.Time) error {
			for _, key := range slices.Sorted(maps.Keys(in.Files)) {
				for _, f := range in.Files[key] {
					if _, err := insertFileTx(ctx, tx, n.offer.InstitutionID, forApplication(id), key, f, now); err != nil {
						return err
					}
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("submitting an application: %w", err)
	}
	return a, nil
}

func fileCounts(files map[string][]*cert.File) map[string]int {
	counts := map[string]int{}
	for key, list := range files {
		if len(list) > 0 {
			counts[key] = len(list)
		}
	}
	return counts
}

// allow counts a request of an applicant, and returns fault.TooMany if the limit of the network is
// reached.
func (s *Service) allow(ctx context.Context, who *Applicant) error {
	if who == nil {
		return nil // requests with a token have their own limits
	}
	if d := s.networks.Take(limit.AddressKey(audit.ActorOf(ctx).Address)); !d.Allowed {
		e := *errFast
		e.RetryAfter = d.RetryAfter
		return &e
	}
	return nil
}

// newApplication is a checked submission.
type newApplication struct {
	Submission

	offer  *Offer
	email  account.Email
	advice Advice
	// counts maps the keys of fields to the numbers of their files.
	counts map[string]int
}

// prepare checks a submission. counts maps the keys of fields to the numbers of their files.
func (s *Service) prepare(ctx context.Context, in Submission, counts map[string]int) (*newApplication, error) {
	o, err := s.Offer(ctx, in.Institution.ID, in.Offer.UUID)
	if err != nil {
		return nil, err
	}
	if o.Status != Open {
		return nil, errNoOffer
	}
	if err := account.CheckEnabled(ctx, s.db, o.InstitutionID); err != nil {
		return nil, err
	}
	n := &newApplication{Submission: in, offer: o, counts: counts}
	if in.Applicant != nil {
		n.Email = in.Applicant.Email
	}
	var bad cert.Problems
	n.FullName, n.Email = checkField(&bad, cert.FieldName, n.FullName), checkField(&bad, cert.FieldEmail, n.Email)
	n.Values = readValues(&bad, o.Fields, in.Values)
	checkFiles(&bad, o, counts)
	if err := bad.Err(); err != nil {
		return nil, err
	}
	if n.email, err = account.ParseEmail(n.Email); err != nil {
		return nil, fmt.Errorf("parsing a checked address: %w", err)
	}
	if err := s.checkFits(ctx, n); err != nil {
		return nil, err
	}
	n.advice, err = s.advise(ctx, s.db, o, n.FullName, n.Values)
	return n, err
}

// checkFits returns the problems of the name and the answers that do not fit the template, so that the
// applicant can correct them. It returns nil if the template cannot be used now.
func (s *Service) checkFits(ctx context.Context, n *newApplication) error {
	if n.offer.TemplateID == "" {
		return nil
	}
	_, err := s.templates.Prepare(ctx, n.Institution, n.offer.TemplateID, template.Entry{
		FullName: n.FullName, Email: n.Email, Title: n.offer.Name, Values: columnsOf(n.offer.Fields, n.Values),
	})
	bad := cert.ProblemsOf(ofAnswers(n.offer.Fields, err))
	if bad == nil && err != nil && !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
		return err
	}
	// The reviewer can change the other texts of the certificate.
	bad = slices.DeleteFunc(bad, func(p cert.Problem) bool {
		return p.Field != cert.FieldName && !strings.HasPrefix(string(p.Field), string(FieldOf("")))
	})
	return bad.Err()
}

// columnsOf returns the values of the fields with a Column. The keys of the result are the names of the columns.
func columnsOf(fields []Field, values map[string]string) map[string]string {
	columns := map[string]string{}
	for i := range fields {
		if f := &fields[i]; f.Column != "" && f.Type != Upload {
			columns[f.Column] = values[f.Key]
		}
	}
	return columns
}

// submitTx stores an application. It calls addFiles with the number of the new row, to store the files.
func (s *Service) submitTx(ctx context.Context, tx *db.Tx, n *newApplication, addFiles func(id int64, now time.Time) error) (*Application, error) {
	step, by := stepOf(triggerSubmit), apiToken
	userID, err := s.applicantTx(ctx, tx, n)
	if err != nil {
		return nil, err
	}
	if n.Applicant != nil {
		by = applicant
	}
	if err := step.check(&Application{state: none}, by); err != nil {
		return nil, err
	}
	if err := limitTx(ctx, tx, n, userID); err != nil {
		return nil, err
	}
	c, err := s.certs.SubmitTx(ctx, tx, cert.Application{
		Institution: n.Institution, Creator: n.Creator, Title: n.offer.Name, FullName: n.FullName, Email: n.Email,
	})
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(append([]Field{}, n.offer.Fields...))
	if err != nil {
		return nil, fmt.Errorf("encoding the fields of an application: %w", err)
	}
	values, err := json.Marshal(n.Values)
	if err != nil {
		return nil, fmt.Errorf("encoding the values of an application: %w", err)
	}
	var id int64
	var user any
	if userID != 0 {
		user = userID
	}
	if err := tx.QueryRowContext(ctx, `
		INSERT INTO applications (certificate_id, uuid, institution_id, offer_id, user_id, email_folded, name_folded, fields, field_values, status, advice, revision, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 1, $12) RETURNING id`,
		c.ID, c.UUID, c.InstitutionID, n.offer.ID, user, n.email.Folded, cert.FoldText(n.FullName), string(fields), string(values), string(step.To),
		string(n.advice), db.Micros(c.CreatedAt)).Scan(&id); err != nil {
		return nil, fmt.Errorf("storing an application: %w", err)
	}
	if err := addFiles(id, c.CreatedAt); err != nil {
		return nil, err
	}
	a, err := byUUID(ctx, tx, c.InstitutionID, c.UUID)
	if err != nil {
		return nil, err
	}
	return a, s.finishTx(ctx, tx, step, a, Person{ID: n.Creator.ID, Type: n.Creator.Type, Name: n.Creator.Name}, "", n.Then)
}

// applicantTx returns the number of the account of the applicant, or 0 if there is none. If an applicant
// submits, the error is errVerify unless the applicant has verified the address. An application through
// the API belongs to the account that has verified its address.
func (*Service) applicantTx(ctx context.Context, tx *db.Tx, n *newApplication) (int64, error) {
	if n.Applicant == nil {
		u, err := account.VerifiedUser(ctx, tx, n.email.Folded)
		if fault.Is(err, fault.NotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		return u.ID, nil
	}
	return n.Applicant.UserID, verifiedTx(ctx, tx, *n.Applicant, n.email.Folded)
}

// verifiedTx returns errVerify unless a person has verified an address.
func verifiedTx(ctx context.Context, q db.Queryer, who Applicant, folded string) error {
	u, err := account.UserByID(ctx, q, who.UserID)
	if err != nil {
		return err
	}
	if u.VerifiedAt == nil || u.EmailFolded != folded {
		return errVerify
	}
	return nil
}

// limitTx returns the error of checkOpen. Other transactions that call limitTx for the same address wait
// until tx ends.
func limitTx(ctx context.Context, tx *db.Tx, n *newApplication, userID int64) error {
	if tx.Dialect() == db.PostgreSQL {
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('application ' || $1, 0))`, n.email.Folded); err != nil {
			return fmt.Errorf("locking the applications of a person: %w", err)
		}
	}
	// An institution that submits with a token must not learn about applications to other institutions.
	// They count only if the applicant submits.
	if n.Applicant == nil {
		userID = 0
	}
	return checkOpen(ctx, tx, n, userID)
}

// checkOpen returns fault.Invalid with cert.Problems if the applicant already has an open application for
// the offer, or the maximum number of open applications.
func checkOpen(ctx context.Context, q db.Queryer, n *newApplication, userID int64) error {
	rows, err := q.QueryContext(ctx, `
		SELECT uuid, offer_id FROM applications WHERE status IN ('pending', 'in_review') AND institution_id = $1 AND email_folded = $2
		UNION SELECT uuid, offer_id FROM applications WHERE status IN ('pending', 'in_review') AND user_id = $3`,
		n.Institution.ID, n.email.Folded, userID)
	if err != nil {
		return fmt.Errorf("reading open applications: %w", err)
	}
	type open struct {
		uuid  string
		offer int64
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (o open, err error) {
		err = rows.Scan(&o.uuid, &o.offer)
		return o, err
	})
	if err != nil {
		return fmt.Errorf("reading open applications: %w", err)
	}
	for _, o := range list {
		if o.offer == n.offer.ID {
			return cert.Problems{{Field: cert.FieldEmail, Code: CodeOpen, Detail: o.uuid}}.Err()
		}
	}
	if len(list) >= maxOpen {
		return cert.Problems{{Field: cert.FieldEmail, Code: CodeTooManyOpen, Limit: maxOpen}}.Err()
	}
	return nil
}
