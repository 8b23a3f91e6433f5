package application

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

// maxFilter is the maximum total length in bytes of the texts of a filter.
const maxFilter = 1000

// sorts maps each order of a list to the column by which the list is sorted.
var sorts = map[string]string{"created_at": "c.created_at", "updated_at": "c.updated_at", "name": "a.name_folded", "email": "a.email_folded"}

// Statuses are all statuses of applications.
var Statuses = []Status{
	cert.Pending, cert.InReview, cert.Processing, cert.Approved, cert.Failed, cert.Revoked, cert.Rejected, cert.Withdrawn, cert.Lapsed,
}

// place is the position of an application in a list.
type place struct {
	Number int64  `json:"n,omitempty"`
	Text   string `json:"t,omitempty"`
	ID     int64  `json:"i"`
}

// selection is a checked filter. A cursor is valid only for a selection with equal exported fields.
type selection struct {
	InstitutionID int64
	Where         string
	Args          []any
	Sort          string
	Ascending     bool
}

// arg adds an argument and returns its placeholder.
func (v *selection) arg(value any) string {
	v.Args = append(v.Args, value)
	return fmt.Sprintf("$%d", len(v.Args))
}

func (v *selection) and(condition string) { v.Where += " AND " + condition }

// List returns applications of an institution, newest first unless the filter has an order. The error is
// fault.Invalid for a filter that is not valid.
func (s *Service) List(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	v, err := s.selection(ctx, institutionID, f)
	if err != nil {
		return nil, err
	}
	l := &List{}
	if !f.HasCursor() {
		var total int
		if err := s.db.QueryRowContext(ctx, `SELECT count(*)`+tables+v.Where, v.Args...).Scan(&total); err != nil {
			return nil, fmt.Errorf("counting applications: %w", err)
		}
		l.Total = &total
	}
	back := f.IsBackward()
	where, args, err := s.position(v, f, back)
	if err != nil {
		return nil, err
	}
	list, err := s.all(ctx, where+v.order(back)+fmt.Sprintf(` LIMIT %d OFFSET %d`, f.PerPage+1, f.Offset()), args...)
	if err != nil {
		return nil, err
	}
	if back && len(list) <= f.PerPage {
		first := ""
		f.Cursor, f.Back = &first, false
		return s.List(ctx, institutionID, f)
	}
	l.More = len(list) > f.PerPage
	if l.More {
		list = list[:f.PerPage]
	}
	if back {
		slices.Reverse(list)
		l.More = true
	}
	l.Items = list
	return l, s.addCursors(v, f, l)
}

// position returns the condition and the arguments of the part of a list that the range of f selects.
func (s *Service) position(v *selection, f Filter, back bool) (string, []any, error) {
	if !f.HasPosition() {
		return v.Where, v.Args, nil
	}
	var at place
	if err := s.cursors.Open(v, *f.Cursor, &at); err != nil {
		return "", nil, err
	}
	where, args := v.beyond(at, back)
	return where, args, nil
}

// beyond returns the condition and the arguments of the part of a list after a place, or before it if back
// is true.
func (v *selection) beyond(at place, back bool) (string, []any) {
	sign := "<"
	if v.Ascending != back {
		sign = ">"
	}
	var key any = at.Number
	if isText(v.Sort) {
		key = at.Text
	}
	args := append(slices.Clone(v.Args), key, at.ID)
	return v.Where + fmt.Sprintf(` AND (%s, c.id) %s ($%d, $%d)`, sorts[v.Sort], sign, len(args)-1, len(args)), args
}

// order returns the ORDER BY clause of a list, with the opposite order if back is true.
func (v *selection) order(back bool) string {
	direction := "DESC"
	if v.Ascending != back {
		direction = "ASC"
	}
	return fmt.Sprintf(` ORDER BY %s %s, c.id %s`, sorts[v.Sort], direction, direction)
}

// Next returns the UUID of the application that follows a in a list. If none follows, it returns the UUID
// of the first application, or "" if the list has no other application. It ignores the range of the filter.
// The error is fault.Invalid for a filter that is not valid.
func (s *Service) Next(ctx context.Context, f Filter, a *Application) (uuid string, err error) {
	f.Range = listing.Range{PerPage: 1, Page: 1}
	v, err := s.selection(ctx, a.InstitutionID, f)
	if err != nil {
		return "", err
	}
	v.and(`c.id <> ` + v.arg(a.ID))
	where, args := v.beyond(v.placeOf(a), false)
	err = s.db.QueryRowContext(ctx, `SELECT a.uuid`+tables+where+v.order(false)+` LIMIT 1`, args...).Scan(&uuid)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.db.QueryRowContext(ctx, `SELECT a.uuid`+tables+v.Where+v.order(false)+` LIMIT 1`, v.Args...).Scan(&uuid)
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("finding the next application: %w", err)
	}
	return uuid, nil
}

func isText(sort string) bool { return sort == "name" || sort == "email" }

// addCursors sets the cursors of a list.
func (s *Service) addCursors(v *selection, f Filter, l *List) (err error) {
	if len(l.Items) == 0 {
		return nil
	}
	if l.More {
		if l.Next, err = s.cursors.Make(v, v.placeOf(l.Items[len(l.Items)-1])); err != nil {
			return err
		}
	}
	if f.HasPosition() {
		l.Prev, err = s.cursors.Make(v, v.placeOf(l.Items[0]))
	}
	return err
}

func (v *selection) placeOf(a *Application) place {
	switch v.Sort {
	case "name":
		return place{Text: cert.FoldText(a.FullName), ID: a.ID}
	case "email":
		return place{Text: a.emailFolded, ID: a.ID}
	case "updated_at":
		return place{Number: db.Micros(a.UpdatedAt), ID: a.ID}
	}
	return place{Number: db.Micros(a.CreatedAt), ID: a.ID}
}

// selection returns the checked filter.
func (s *Service) selection(ctx context.Context, institutionID int64, f Filter) (*selection, error) {
	var bad fault.Fields
	f.Check(&bad)
	v := &selection{InstitutionID: institutionID, Sort: f.Sort, Ascending: f.Ascending}
	if v.Sort == "" {
		v.Sort = "created_at"
	}
	if sorts[v.Sort] == "" {
		bad.Add("sort", "The order must be created_at, updated_at, name or email.")
	}
	v.Where = `WHERE a.institution_id = ` + v.arg(institutionID)
	f.statuses(v, &bad)
	if len(f.Search)+len(f.Email)+len(f.OfferUUID) > maxFilter || !account.CleanText(f.Search+f.Email+f.OfferUUID) {
		bad.Add("search", fmt.Sprintf("The filters must be text of at most %d bytes.", maxFilter))
		return nil, bad.Err()
	}
	if f.OfferUUID != "" {
		v.and(`o.uuid = ` + v.arg(f.OfferUUID))
	}
	if f.Email != "" {
		folded := cert.FoldText(f.Email)
		if e, err := account.ParseEmail(f.Email); err == nil {
			folded = e.Folded
		}
		v.and(`a.email_folded = ` + v.arg(folded))
	}
	if text := cert.FoldText(f.Search); text != "" {
		v.and(`c.search_text LIKE ` + v.arg("%"+db.EscapeLike(text)+"%") + ` ESCAPE '\'`)
	}
	f.holds(v, &bad)
	v.day(&bad, "created_from", f.CreatedFrom, `>=`, 0)
	v.day(&bad, "created_to", f.CreatedTo, `<`, 1)
	if f.ClaimedBy != 0 {
		v.and(`a.claimed_by_type = 'user' AND a.claimed_by_id = ` + v.arg(f.ClaimedBy))
	}
	if f.Ended {
		v.and(`NOT (` + isOpen + `)`)
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	if f.For != 0 {
		offers, err := s.reviewed(ctx, institutionID, f.For)
		if err != nil {
			return nil, err
		}
		v.and(isOpen)
		v.offers(offers)
	}
	return v, nil
}

func (f *Filter) statuses(v *selection, bad *fault.Fields) {
	if len(f.Statuses) == 0 {
		return
	}
	list := make([]string, len(f.Statuses))
	for i, status := range f.Statuses {
		if !slices.Contains(Statuses, status) {
			bad.Add("status", "There is no such status of applications.")
		}
		list[i] = v.arg(string(status))
	}
	v.and(`c.status IN (` + strings.Join(list, ", ") + `)`)
}

func (f *Filter) holds(v *selection, bad *fault.Fields) {
	if f.Hold != "" {
		if !slices.Contains(HoldKinds, f.Hold) {
			bad.Add("hold", "The hold must be information, payment or identity.")
		}
		v.and(`a.hold_kind = ` + v.arg(string(f.Hold)))
	}
	for _, c := range []struct {
		value  *bool
		column string
	}{{f.OnHold, "a.hold_kind"}, {f.Answered, "a.answered_at"}} {
		switch {
		case c.value == nil:
		case *c.value:
			v.and(c.column + ` IS NOT NULL`)
		default:
			v.and(c.column + ` IS NULL`)
		}
	}
}

// day adds a condition on the time of creation. sign is the SQL operator that compares the time with the
// start of the day in UTC. plus is a number of days that is added to the day.
func (v *selection) day(bad *fault.Fields, field, day, sign string, plus int) {
	if day == "" {
		return
	}
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		bad.Add(field, "The date must have the form YYYY-MM-DD.")
		return
	}
	v.and(`c.created_at ` + sign + ` ` + v.arg(db.Micros(at.AddDate(0, 0, plus))))
}

// offers adds the condition that an application is for one of the offers.
func (v *selection) offers(ids []int64) {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = v.arg(id)
	}
	if len(list) == 0 {
		list = []string{"0"}
	}
	v.and(`a.offer_id IN (` + strings.Join(list, ", ") + `)`)
}

// Reviewers maps the people whom offers of an institution name as reviewers, and more people, to their names and
// roles. The result is empty if no offer names reviewers.
func (s *Service) Reviewers(ctx context.Context, institutionID int64, offers []*Offer, more ...int64) (map[int64]account.PersonName, error) {
	var ids []int64
	for _, o := range offers {
		ids = append(ids, o.Reviewers...)
	}
	if len(ids) > 0 {
		ids = append(ids, more...)
	}
	slices.Sort(ids)
	return account.PersonNames(ctx, s.db, institutionID, slices.Compact(ids))
}

// ReviewedBy reports whether a member with the permission to review is a reviewer of an offer.
func (s *Service) ReviewedBy(ctx context.Context, o *Offer, userID int64) (bool, error) {
	people, err := s.Reviewers(ctx, o.InstitutionID, []*Offer{o}, userID)
	return o.ReviewedBy(userID, people), err
}

// reviewed returns the numbers of the offers whose applications a member may review.
func (s *Service) reviewed(ctx context.Context, institutionID, userID int64) (ids []int64, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT id, reviewers FROM offers WHERE institution_id = $1 ORDER BY id`, institutionID)
	if err != nil {
		return nil, fmt.Errorf("reading the reviewers of offers: %w", err)
	}
	list, err := db.Collect(rows, func(rows *sql.Rows) (*Offer, error) {
		o, text := &Offer{}, ""
		if err := rows.Scan(&o.ID, &text); err != nil {
			return nil, err
		}
		return o, json.Unmarshal([]byte(text), &o.Reviewers)
	})
	if err != nil {
		return nil, fmt.Errorf("reading the reviewers of offers: %w", err)
	}
	people, err := s.Reviewers(ctx, institutionID, list, userID)
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if o.ReviewedBy(userID, people) {
			ids = append(ids, o.ID)
		}
	}
	return ids, nil
}

// isOpen is the condition that an application waits for a decision.
const isOpen = `a.status IN ('pending', 'in_review')`

// ofOffers returns the selection of the applications for offers of an institution.
func ofOffers(institutionID int64, offers []int64) *selection {
	v := &selection{}
	v.Where = `WHERE a.institution_id = ` + v.arg(institutionID)
	v.offers(offers)
	return v
}

// Waiting returns the number of open applications that a member may review and that do not wait for their
// applicants. This is the sum of Counts.Pending, Counts.InReview and Counts.Answered.
func (s *Service) Waiting(ctx context.Context, institutionID, userID int64) (n int, err error) {
	offers, err := s.reviewed(ctx, institutionID, userID)
	if err != nil || len(offers) == 0 {
		return 0, err
	}
	v := ofOffers(institutionID, offers)
	v.and(isOpen + ` AND (a.hold_kind IS NULL OR a.answered_at IS NOT NULL)`)
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM applications a `+v.Where, v.Args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the applications that wait: %w", err)
	}
	return n, nil
}

// week is the period of Counts.DecidedThisWeek.
const week = 7 * 24 * time.Hour

// Counts returns the numbers of the applications that a member may review.
func (s *Service) Counts(ctx context.Context, institutionID, userID int64) (*Counts, error) {
	offers, err := s.reviewed(ctx, institutionID, userID)
	if err != nil {
		return nil, err
	}
	v := ofOffers(institutionID, offers)
	n := &Counts{}
	var oldest sql.NullInt64
	if err := s.db.QueryRowContext(ctx, `
		SELECT coalesce(sum(CASE WHEN a.status = 'pending' AND a.hold_kind IS NULL THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN a.status = 'in_review' AND a.hold_kind IS NULL THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN a.hold_kind IS NOT NULL AND a.answered_at IS NULL THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN a.answered_at IS NOT NULL THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN a.claimed_by_type = 'user' AND a.claimed_by_id = `+v.arg(userID)+` THEN 1 ELSE 0 END), 0),
			min(a.created_at) FROM applications a `+v.Where+` AND `+isOpen, v.Args...).
		Scan(&n.Pending, &n.InReview, &n.OnHold, &n.Answered, &n.Mine, &oldest); err != nil {
		return nil, fmt.Errorf("counting applications: %w", err)
	}
	n.OldestAt = db.OptionalTime(oldest)
	v.Args = v.Args[:len(v.Args)-1]
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM applications a `+v.Where+` AND a.decided_at >= `+v.arg(db.Micros(s.now().Add(-week))), v.Args...).
		Scan(&n.DecidedThisWeek); err != nil {
		return nil, fmt.Errorf("counting decided applications: %w", err)
	}
	return n, nil
}
