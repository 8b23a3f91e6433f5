package search

import (
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

// maxFilter is the maximum total length of Search, Title and Email in bytes. With this limit, the escaped
// LIKE pattern is shorter than the 50,000 bytes that SQLite accepts.
const maxFilter = 4096

// Sort is the order of a list. Records with the same sort key are ordered by their creation, and
// then by their id.
type Sort string

// These are the orders of a list.
const (
	// ByCreated orders by creation.
	ByCreated Sort = "created_at"
	// ByUpdated orders by the last change.
	ByUpdated Sort = "updated_at"
	// ByGenerated orders by the time at which the verified PDF was made. Certificates without a
	// verified PDF have the time 0, which is before all others.
	ByGenerated Sort = "generated_at"
	// ByIssueDate orders by the date of issue.
	ByIssueDate Sort = "issue_date"
	// ByName orders by the folded name, code point by code point.
	ByName Sort = "name"
	// ByEmail orders by the folded e-mail address, code point by code point.
	ByEmail Sort = "email"
	// ByStatus orders by the status, in the order of Filter.StatusOrder.
	ByStatus Sort = "status"
)

// Sorts lists all orders.
var Sorts = []Sort{ByName, ByEmail, ByStatus, ByIssueDate, ByGenerated, ByCreated, ByUpdated}

// Filter selects certificates, their order, and the part of the list to return. An empty field does not
// narrow the list.
type Filter struct {
	Sources  []cert.Source
	Statuses []cert.Status
	Email    string
	Search   string
	// Title selects certificates with this title; case is ignored.
	Title   string
	BatchID string
	// FailureCode selects failed certificates with this code.
	FailureCode string
	// CustomerID is the recipient's number within the institution.
	CustomerID int64
	// These are the first and the last day of a range, in the form YYYY-MM-DD: of the date of issue, and
	// of the day in UTC on which the verified PDF was made.
	IssuedFrom, IssuedTo       string
	GeneratedFrom, GeneratedTo string
	Expired                    Expiry
	// ExpiresFrom and ExpiresTo are the bounds of the last day of validity, in the form YYYY-MM-DD.
	ExpiresFrom, ExpiresTo string
	Replaced               Replaced

	// An empty Sort means ByCreated.
	Sort      Sort
	Ascending bool
	// StatusOrder is the order of ByStatus. An empty StatusOrder means cert.Statuses.
	StatusOrder []cert.Status

	listing.Range
}

// codeRule matches the form of failure codes.
var codeRule = regexp.MustCompile(`^[a-z0-9_]{0,64}$`)

// Check returns a fault of kind Invalid if a field of the filter is not valid.
func (f *Filter) Check() error {
	_, err := f.read(0)
	return err
}

// read checks a filter and returns its view.
func (f *Filter) read(institutionID int64) (*view, error) {
	var bad fault.Fields
	v := &view{
		InstitutionID: institutionID, Sources: f.Sources, Statuses: f.Statuses, CustomerID: f.CustomerID,
		IssuedFrom: f.IssuedFrom, IssuedTo: f.IssuedTo, Sort: f.Sort, Ascending: f.Ascending, StatusOrder: f.StatusOrder, limit: f.PerPage,
		Expired: f.Expired, ExpiresFrom: f.ExpiresFrom, ExpiresTo: f.ExpiresTo, Replaced: f.Replaced,
	}
	f.Range.Check(&bad)
	v.offset = f.Offset()
	if !account.CleanText(f.Search+f.Email+f.Title) || len(f.Search)+len(f.Email)+len(f.Title) > maxFilter {
		bad.Add("search", fmt.Sprintf("The filters must be text in UTF-8 without NUL characters, of at most %d bytes.", maxFilter))
		return nil, bad.Err()
	}
	v.Search, v.Title = cert.FoldText(f.Search), cert.FoldText(f.Title)
	if v.Search == "" {
		// The search text contains the title, so the index of the search finds the records.
		v.Search = v.Title
	}
	if v.FailureCode = f.FailureCode; !codeRule.MatchString(f.FailureCode) {
		bad.Add("failure", "The failure must be a code, such as no_room.")
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
		bad.Add("customer_id", "The customer id must be a positive whole number.")
	}
	date(&bad, "issue_date_from", f.IssuedFrom)
	date(&bad, "issue_date_to", f.IssuedTo)
	date(&bad, "expires_from", f.ExpiresFrom)
	date(&bad, "expires_to", f.ExpiresTo)
	if f.Expired != AnyExpiry && !slices.Contains(Expiries, f.Expired) {
		bad.Add("expired", "The value must be true or false.")
	}
	if f.Replaced != AnyReplaced && !slices.Contains(Replacements, f.Replaced) {
		bad.Add("replaced", "The value must be true or false.")
	}
	if at := date(&bad, "generated_at_from", f.GeneratedFrom); f.GeneratedFrom != "" {
		// A certificate without a verified PDF has the time 0 and must not match.
		v.GeneratedFrom = max(1, db.Micros(at))
	}
	if at := date(&bad, "generated_at_to", f.GeneratedTo); f.GeneratedTo != "" {
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

// date parses a date, which may be empty. It adds a problem to bad if the date is not valid.
func date(bad *fault.Fields, field, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		bad.Add(field, "The date must be one that exists, as YYYY-MM-DD.")
	}
	return at
}
