package search

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/listing"
)

const (
	// maxFilter bounds the text of the filters in bytes: escaped and in a
	// pattern it stays below the 50,000 that SQLite takes.
	maxFilter = 4096
	// listTime bounds the statements of one list, and listRetry is when a client
	// that met the bound may ask again.
	listTime  = 5 * time.Second
	listRetry = 5 * time.Second
)

// Sort is what a list is ordered by; records that are equal in it stand by
// their creation, and by their id.
type Sort string

// What a list can be ordered by.
const (
	// ByCreated is the order of creation.
	ByCreated Sort = "created_at"
	// ByUpdated is the order of the last change.
	ByUpdated Sort = "updated_at"
	// ByGenerated is the order in which verified PDFs were made; certificates
	// without one come before all others.
	ByGenerated Sort = "generated_at"
	// ByIssueDate is the order of the dates of issue.
	ByIssueDate Sort = "issue_date"
	// ByName is the order of the names without case, code point by code point.
	ByName Sort = "name"
	// ByEmail is that order of the addresses.
	ByEmail Sort = "email"
	// ByStatus is the order of statuses that the filter gives.
	ByStatus Sort = "status"
)

// Sorts are all that a list can be ordered by.
var Sorts = []Sort{ByName, ByEmail, ByStatus, ByIssueDate, ByGenerated, ByCreated, ByUpdated}

// Filter says which certificates to list, in which order, and which part of
// them. What is left empty does not narrow the list.
type Filter struct {
	Sources  []cert.Source
	Statuses []cert.Status
	Email    string
	Search   string
	BatchID  string
	// FailureCode selects certificates that are failed for that reason.
	FailureCode string
	// CustomerID is the recipient's number.
	CustomerID int64
	// The bounds of both dates are days, YYYY-MM-DD, and belong to the range;
	// those of the generation are UTC.
	IssuedFrom, IssuedTo       string
	GeneratedFrom, GeneratedTo string

	// Sort is ByCreated when it is empty.
	Sort      Sort
	Ascending bool
	// StatusOrder is the order of ByStatus, that of Statuses when it is empty.
	StatusOrder []cert.Status

	listing.Range
}

// codeRule is how codes of failures are written.
var codeRule = regexp.MustCompile(`^[a-z0-9_]{0,64}$`)

// List is one part of a list of certificates.
type List struct {
	listing.Part

	Items []*cert.Certificate
}

// List gives the certificates of an institution that a filter selects, newest
// first when it names no order.
func (s *Service) List(ctx context.Context, institutionID int64, f Filter) (*List, error) {
	v, err := f.read(institutionID)
	if err != nil {
		return nil, err
	}
	if f.Begun() {
		v.after, v.back = &place{}, f.Returns()
		if err := s.cursors.Open(v, *f.Cursor, v.after); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.listTime, errSlow)
	defer cancel()
	l, err := s.list(ctx, v, f.Walks())
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return nil, &fault.Error{
			Kind: fault.Unavailable, Message: "The list took too long to make. Narrow it down or try again later.", RetryAfter: listRetry, Err: err,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing certificates: %w", err)
	}
	return l, nil
}

var errSlow = errors.New("the list took longer than it may")

func (s *Service) list(ctx context.Context, v *view, walking bool) (*List, error) {
	size, err := s.size(ctx, v)
	if err != nil {
		return nil, err
	}
	l := &List{}
	var items []item
	if asked := v.turned(); v.narrowed() {
		items, size, err = s.narrowed(ctx, asked)
	} else {
		items, err = s.whole(ctx, asked)
	}
	if err != nil {
		return nil, err
	}
	if v.back && len(items) <= v.limit {
		return s.list(ctx, v.begun(), walking)
	}
	switch {
	case walking:
	case v.narrowed() && size > s.bounds.count:
		l.AtLeast = s.bounds.count
	default:
		l.Total = &size
	}
	if len(items) > v.limit {
		items = items[:v.limit]
		l.More = true
	}
	if v.back {
		slices.Reverse(items)
	}
	if l.More {
		if l.Next, err = s.cursors.Make(v, items[v.limit-1].at); err != nil {
			return nil, err
		}
	}
	if v.after != nil && len(items) > 0 {
		if l.Prev, err = s.cursors.Make(v, items[0].at); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		l.Items = append(l.Items, item.Certificate)
	}
	return l, nil
}

// Check says what is wrong with a filter.
func (f *Filter) Check() error {
	_, err := f.read(0)
	return err
}

// read checks a filter and gives it the form in which it is asked for.
func (f *Filter) read(institutionID int64) (*view, error) {
	var bad fault.Fields
	v := &view{
		InstitutionID: institutionID, Sources: f.Sources, Statuses: f.Statuses, CustomerID: f.CustomerID,
		IssuedFrom: f.IssuedFrom, IssuedTo: f.IssuedTo, Sort: f.Sort, Ascending: f.Ascending, StatusOrder: f.StatusOrder, limit: f.PerPage,
	}
	f.Range.Check(&bad)
	v.offset = f.Offset()
	if !account.CleanText(f.Search) || !account.CleanText(f.Email) || len(f.Search)+len(f.Email) > maxFilter {
		bad.Add("search", fmt.Sprintf("The filters must be text in UTF-8 without NUL characters, of at most %d bytes.", maxFilter))
		return nil, bad.Err()
	}
	v.Search = cert.FoldText(f.Search)
	if v.FailureCode = f.FailureCode; !codeRule.MatchString(f.FailureCode) {
		bad.Add("failure", "The failure must be named by its code, such as no_room.")
	}
	if v.Email = cert.FoldText(f.Email); v.Email != "" {
		if e, err := account.ParseEmail(f.Email); err == nil {
			v.Email = e.Folded
		}
	}
	if f.BatchID != "" {
		id, err := uuid.Parse(f.BatchID)
		if err != nil || len(f.BatchID) != len(id.String()) {
			bad.Add("batch_id", "The batch id must be a UUID.")
		}
		v.BatchID = id.String()
	}
	if f.CustomerID < 0 {
		bad.Add("customer_id", "The customer id must be a number from 1.")
	}
	day(&bad, "issue_date_from", f.IssuedFrom)
	day(&bad, "issue_date_to", f.IssuedTo)
	if at := day(&bad, "generated_at_from", f.GeneratedFrom); f.GeneratedFrom != "" {
		// A certificate that has no verified PDF yet is at 0.
		v.GeneratedFrom = max(1, db.Micros(at))
	}
	if at := day(&bad, "generated_at_to", f.GeneratedTo); f.GeneratedTo != "" {
		v.GeneratedFrom, v.GeneratedBefore = max(1, v.GeneratedFrom), max(1, db.Micros(at.AddDate(0, 0, 1)))
	}
	if v.Sort == "" {
		v.Sort = ByCreated
	}
	if v.Sort != ByStatus {
		v.StatusOrder = nil
	} else if len(v.StatusOrder) == 0 {
		v.StatusOrder = cert.Statuses
	}
	return v, bad.Err()
}

// day reads a date that may be missing.
func day(bad *fault.Fields, field, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		bad.Add(field, "The date must be one that exists, as YYYY-MM-DD.")
	}
	return at
}
