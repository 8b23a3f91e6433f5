// Package fault defines the one type of errors that clients may see. An error has a kind and a message that
// is safe to show. The text of its cause is only for the log. The package does not depend on HTTP: package
// web maps kinds to status codes.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind classifies an error by its cause and by what the client can do about it.
type Kind int

const (
	// Internal is a failure of the server. Its cause is logged and never shown.
	Internal Kind = iota
	// Invalid is input that breaks a rule.
	Invalid
	// BadRequest is an operation that the current state does not allow, or a body that cannot be read.
	BadRequest
	// Unauthorized is a missing, unknown or expired token.
	Unauthorized
	// Forbidden is an operation for which the caller has no permission.
	Forbidden
	// NotFound is a record that does not exist for this caller.
	NotFound
	// NotAllowed is a method that the resource does not have.
	NotAllowed
	// TimedOut is a body that did not arrive in time.
	TimedOut
	// Conflict is a request that conflicts with another request or with an existing record.
	Conflict
	// TooLarge is a body that exceeds the limit.
	TooLarge
	// Unsupported is a body of a type that the operation does not accept.
	Unsupported
	// OutOfRange is a request for a range that the file does not have.
	OutOfRange
	// PreconditionFailed is a conditional request whose condition is false.
	PreconditionFailed
	// TooMany is a request of a caller that exceeds a rate or a quota.
	TooMany
	// Unavailable is a temporary condition of the server. A later retry can succeed.
	Unavailable
	// Damaged is a stored file that is missing or differs from its recorded content. The cause is logged.
	Damaged
)

// Field is one input field. Its messages are in the order in which they were added.
type Field struct {
	Name     string
	Messages []string
}

// Error is the error that an operation returns.
type Error struct {
	Kind    Kind
	Message string
	Fields  []Field
	// RetryAfter is the time after which a retry may succeed, for the kinds Conflict, TooMany and
	// Unavailable. Zero means that the time is not known.
	RetryAfter time.Duration
	// Err is the cause. Its text is only logged.
	Err error
}

// Error returns the message, the problems of the fields and the cause, for the log.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an error of a kind with a message for the caller.
func New(kind Kind, message string) *Error { return &Error{Kind: kind, Message: message} }

// Wrap returns an error of a kind with a message for the caller and a cause for the log.
func Wrap(kind Kind, message string, err error) *Error {
	return &Error{Kind: kind, Message: message, Err: err}
}

// OfField returns an Invalid error about one field.
func OfField(name, message string) *Error {
	return &Error{Kind: Invalid, Fields: []Field{{Name: name, Messages: []string{message}}}}
}

// KindOf returns the kind of the first *Error in the chain of an error. It returns Internal if the
// chain has none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// Is reports whether an error is not nil and of a kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }

// Fields collects the problems of an input, so that one error reports all problems. The zero value
// is ready to use.
type Fields struct{ list []Field }

// Add adds a message for a field.
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

// Len returns the number of fields that have messages.
func (f *Fields) Len() int { return len(f.list) }

// Err returns an Invalid error with all messages, or nil if there are no messages.
func (f *Fields) Err() error {
	if len(f.list) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Fields: f.list}
}
