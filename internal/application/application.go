// Package application owns offers and the applications of people for certificates. An application is a
// record of package cert with the source customer; this package has its fields, files, messages and
// decisions. One table has the steps between the states, with the roles that may trigger each step.
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

// HoldKind is what a hold waits for.
type HoldKind string

// These are the kinds of holds.
const (
	Information HoldKind = "information"
	Payment     HoldKind = "payment"
	Identity    HoldKind = "identity"
)

// Status is the status of an application: a status of package cert.
type Status = cert.Status

// Application is the application of a person. The fields about the certificate are those of the
// application's record in package cert.
type Application struct {
	ID            int64 // the application_id of the interface: the id of the record
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
	// Values are the answers by the keys of Fields, which are the fields of the offer at submission.
	Fields []Field
	Values map[string]string
	Files  []File
	// ApplicantID is the number of the applicant's account, or 0.
	ApplicantID int64
	Hold        *Hold
	// ClaimedBy is the reviewer who claimed the application, and DecidedBy the person who decided it.
	ClaimedBy, DecidedBy Person
	// Reason is the reason of a rejection, which the applicant sees. The applicant does not see Note.
	Reason, Note string
	// Advice is the result of the comparison with the register.
	Advice Advice
	// Failure says why the processing of the certificate failed; otherwise it is nil.
	Failure              *cert.Failure
	CreatedAt, UpdatedAt time.Time
	DecidedAt, ClaimedAt *time.Time
	FilesDeleted         bool
	Revision             int64

	// id is the number of the row, and state is the state in the table of steps. emailFolded is the
	// address in the form in which it is compared.
	id          int64
	state       Status
	emailFolded string
}

// IsOpen reports whether the application waits for a decision.
func (a *Application) IsOpen() bool { return slices.Contains(openStates, a.state) }

// Person is a member or a token that acted. ID is 0 if there is none.
type Person struct {
	ID   int64
	Type string // "user" or "token"
	Name string
}

// Hold is a question to the applicant.
type Hold struct {
	Kind       HoldKind
	Text       string
	Since      time.Time
	Until      time.Time
	Answer     string
	AnsweredAt *time.Time
}

// File is an attachment. Key is the key of its field, or "answer".
type File struct {
	ID      string // UUID
	Field   string
	Name    string
	Type    string
	Size    int64
	Deleted bool
}

// Advice is the result of the comparison with the register. It is never a decision.
type Advice string

// These are the results of a comparison. NoRegister means that there is no register.
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
	// By is the actor, whom the applicant does not see.
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

// Submission is the input of Submit: an applicant with a draft, or the fields of a request of the API.
type Submission struct {
	Institution     *account.Institution
	Offer           *Offer
	Creator         cert.Actor
	Applicant       *Applicant // nil for the API
	FullName, Email string
	Values          map[string]string
	// Files are received files by the keys of their fields; see Receive.
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
	// Ended selects the applications that no longer wait for a decision. An approved application that
	// waits for signatories is one of them.
	Ended bool
	// Answered selects the applications whose hold has an answer, or those without an answer.
	Answered               *bool
	CreatedFrom, CreatedTo string // YYYY-MM-DD
	Sort                   string // "created_at", "updated_at", "name", "email"; the default is created_at
	Ascending              bool
}

// Approval is the certificate that a reviewer approves. If a text is empty, that of the application or its
// offer is used. File is required if the offer has no template.
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

// Counts are the numbers that the dashboard shows of the applications that a member may review. Each open
// application is counted in one of Pending, InReview, OnHold (without an answer) and Answered.
type Counts struct {
	Pending, InReview, OnHold, Answered int
	// Mine is the number of open applications that the member claimed.
	Mine int
	// OldestAt is the time of the oldest open application.
	OldestAt        *time.Time
	DecidedThisWeek int
}

// Open returns the number of applications that are not decided.
func (c *Counts) Open() int { return c.Pending + c.InReview + c.OnHold + c.Answered }

// List is a part of a list of applications.
type List struct {
	listing.Part

	Items []*Application
}
