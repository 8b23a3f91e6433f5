// Package fault is the one error type that crosses from an operation to a
// surface. It says what kind of thing went wrong and carries a message that is
// safe and useful to the person who caused it; the cause stays inside for the
// log. It knows nothing of HTTP: the surfaces map kinds to status codes.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind says whose fault it is and what the caller can do about it.
type Kind int

const (
	// Internal is a fault of ours; its cause is logged and never shown.
	Internal Kind = iota
	// Invalid is input that breaks a rule; Fields name where.
	Invalid
	// BadRequest is an operation that the present state does not allow.
	BadRequest
	// Unauthorized is a missing, unknown or expired credential.
	Unauthorized
	// Forbidden is a known caller without the permission.
	Forbidden
	// NotFound is a record that does not exist for this caller.
	NotFound
	// NotAllowed is a method that the resource does not have.
	NotAllowed
	// TimedOut is a body that did not come in time.
	TimedOut
	// Conflict is a request that another one under way stands against.
	Conflict
	// TooLarge is a body over the limit.
	TooLarge
	// Unsupported is a body of a type that the operation does not take.
	Unsupported
	// OutOfRange asks for a part of a file that the file does not have.
	OutOfRange
	// Unmet asks for a file on a condition that does not hold.
	Unmet
	// TooMany is a caller over its rate or quota.
	TooMany
	// Unavailable is a passing condition of ours; trying later helps.
	Unavailable
)

// Field is one input field and what is wrong with it, in the order found.
type Field struct {
	Name     string
	Messages []string
}

// Error is what an operation returns when it refuses or fails.
type Error struct {
	Kind    Kind
	Message string
	Fields  []Field
	// RetryAfter is a hint for Conflict, TooMany and Unavailable; zero gives none.
	RetryAfter time.Duration
	// Err is the cause, for the log alone.
	Err error
}

// Error gives the message and, behind it, the cause.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	for _, f := range e.Fields {
		fmt.Fprintf(&b, "; %s: %s", f.Name, strings.Join(f.Messages, " "))
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of a kind with a message for the caller.
func New(kind Kind, message string) *Error { return &Error{Kind: kind, Message: message} }

// Wrap makes an error of a kind that keeps its cause for the log.
func Wrap(kind Kind, message string, err error) *Error {
	return &Error{Kind: kind, Message: message, Err: err}
}

// OfField is an Invalid error about one field.
func OfField(name, message string) *Error {
	return &Error{Kind: Invalid, Fields: []Field{{Name: name, Messages: []string{message}}}}
}

// KindOf gives the kind of an error, Internal for one that is not ours.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is tells whether an error is of a kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// Fields collects what is wrong with an input before it is refused as a whole.
// The zero value is ready to use.
type Fields struct{ list []Field }

// Add notes a message for a field.
func (f *Fields) Add(name, message string) {
	for i := range f.list {
		if f.list[i].Name == name {
			f.list[i].Messages = append(f.list[i].Messages, message)
			return
		}
	}
	f.list = append(f.list, Field{Name: name, Messages: []string{message}})
}

// List returns the fields that have messages.
func (f *Fields) List() []Field { return f.list }

// Len is how many fields have a message.
func (f *Fields) Len() int { return len(f.list) }

// Err is an Invalid error with all that was added, nil if nothing was.
func (f *Fields) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Fields: f.list}
}
