// Package application stores offers and the applications of people for certificates. An application has
// a record in package cert, which has the status, the name and the address. Package application stores the
// answers, files, holds and decisions. The table in state.go has the steps between the states, with the
// roles that may take each step.
package application

import (
	"context"
	"slices"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/listing"
)

// HoldKind is the kind of a hold: what the institution requests.
type HoldKind string

// These are the kinds of holds.
const (
	Information HoldKind = "information"
	Payment     HoldKind = "payment"
	Identity    HoldKind = "identity"
)

// Status is the status of an application. It is the status of its record in package cert.
type Status = cert.Status

// Application is the application of a person. The fields about the certificate are those of the
// application's record in package cert.
type Application struct {
	ID            int64 // the application_id of the API: the id of the record
	UUID          string
	InstitutionID int64
	OfferID       int64
	OfferUUID     string
	OfferName     string
	ReferenceID   string
	Status        Status
	FullName      string
	Email         string
	Title         string
	// Fields are the fields of the offer at the time of the submission. Values maps the keys of the fields
	// to the answers.
	Fields []Field
	Values map[string]string
	Files  []File
	// ApplicantID is the number of the applicant's account, or 0 if there is none.
	ApplicantID int64
	Hold        *Hold
	// ClaimedBy is the reviewer who claimed the application, and DecidedBy the person who decided it.
	ClaimedBy, DecidedBy Person
	// Reason is the reason of a rejection. The applicant sees Reason, but not Note.
	Reason, Note string
	// Advice is the result of the comparison with the register.
	Advice Advice
	// Failure is the reason why the processing of the certificate failed, or nil.
	Failure              *cert.Failure
	CreatedAt, UpdatedAt time.Time
	DecidedAt, ClaimedAt *time.Time
	FilesDeleted         bool
	Revision             int64

	// id is the number of the row in the table applications, and state is the state in the table of steps.
	// emailFolded is the address in the form in which it is compared.
	id          int64
	state       Status
	emailFolded string
}

// IsOpen reports whether the application waits for a decision.
func (a *Application) IsOpen() bool { return slices.Contains(openStates, a.state) }

// Person is a user or a token that took a step. The zero value means that there is none.
type Person struct {
	ID   int64
	Type string // "user" or "token"
	Name string
}

// Hold is a question to the applicant, or a request for a payment or proof of identity.
type Hold struct {
	Kind       HoldKind
	Text       string
	Since      time.Time
	Until      time.Time
	Answer     string
	AnsweredAt *time.Time
}

// File is an attachment. Field is the key of the offer's field, or "answer".
type File struct {
	ID      string // UUID
	Field   string
	Name    string
	Type    string
	Size    int64
	Deleted bool
}

// Advice is the result of the comparison with the register. It does not decide the application.
type Advice string

// These are the results of a comparison. NoRegister means that the offer has no register.
const (
	NoRegister Advice = ""
	Matches    Advice = "match"
	Differs    Advice = "differs"
	Unknown    Advice = "unknown"
)

// Event is an entry of the timeline of an application.
type Event struct {
	At time.Time
	// Action is "submitted", "claimed", "held", "answered", "released", "approved", "rejected", "withdrawn",
	// "expired", "certificate_approved", "failed", "retried" or "revoked".
	Action string
	// By is the person or token that took the step. The applicant must not see it.
	By   Person
	Text string
}

// DraftApplication is the saved input of a person who has not submitted it.
type DraftApplication struct {
	UUID      string
	Offer     *Offer
	FullName  string
	Values    map[string]string
	Files     []File
	UpdatedAt time.Time
}

// Applicant is a person with a verified address and an account.
type Applicant struct {
	UserID   int64
	Email    string
	Name     string
	Language string
}

// Submission is the input of Submit.
type Submission struct {
	Institution     *account.Institution
	Offer           *Offer
	Creator         cert.Actor
	Applicant       *Applicant // nil for the API
	FullName, Email string
	Values          map[string]string
	// Files maps the keys of fields to the files that Receive stored.
	Files map[string][]*cert.File
	// Then runs at the end of the transaction, with the stored application. It may be nil.
	Then TxFunc
}

// Filter selects the applications of a list.
type Filter struct {
	listing.Range
	Statuses  []Status
	OfferUUID string
	Email     string
	Search    string
	Hold      HoldKind
	OnHold    *bool
	// ClaimedBy selects the applications that a member claimed, and For selects the open
	// applications that a member may review.
	ClaimedBy, For int64
	// Ended selects the applications that are not open. These include approved applications that wait for
	// signatories.
	Ended bool
	// Answered selects the applications with an answer to a hold if it is true, and those without an answer
	// if it is false.
	Answered               *bool
	CreatedFrom, CreatedTo string // YYYY-MM-DD
	Sort                   string // "created_at", "updated_at", "name", "email"; the default is created_at
	Ascending              bool
}

// Approval has the texts of the certificate that a reviewer approves. If Title is empty, the certificate
// has the title of the template or of the application. If IssueDate is empty, it has the current date.
// File is required if the offer has no template.
type Approval struct {
	Title, IssueDate, Details, ExpiresOn string
	File                                 *cert.File
}

// Reviewer is the member or token that takes a step.
type Reviewer struct {
	Institution *account.Institution
	Person      Person
	// Revision is the revision that the reviewer saw, or 0 if it is not checked.
	Revision int64
	// Then runs at the end of the transaction of the step, with the changed application. It may be nil.
	Then TxFunc
}

// TxFunc runs in the transaction of an operation on an application.
type TxFunc func(ctx context.Context, tx *db.Tx, a *Application) error

// Counts are the numbers of the applications that a member may review. Each open application is counted
// in one of Pending, InReview, OnHold (without an answer) and Answered.
type Counts struct {
	Pending, InReview, OnHold, Answered int
	// Mine is the number of open applications that the member claimed.
	Mine int
	// OldestAt is the time of the oldest open application.
	OldestAt *time.Time
	// DecidedThisWeek is the number of applications that were decided, were withdrawn or expired in the
	// last 7 days.
	DecidedThisWeek int
}

// Open returns the number of open applications.
func (c *Counts) Open() int { return c.Pending + c.InReview + c.OnHold + c.Answered }

// List is a part of a list of applications.
type List struct {
	listing.Part

	Items []*Application
}
