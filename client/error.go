package client

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kinds of errors, for errors.Is.
var (
	// ErrInvalidOperation is 400: the record is not in a state for it, as a
	// certificate that is retried and did not fail.
	ErrInvalidOperation = errors.New("invalid operation")
	// ErrUnauthorized is 401: the token is missing, unknown, over or revoked.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is 403: the token lacks the permission.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is 404: there is no such record, or no PDF of it yet.
	ErrNotFound = errors.New("not found")
	// ErrConflict is 409: the same call is still under way.
	ErrConflict = errors.New("the same call is under way")
	// ErrTooLarge is 413: the body is larger than the vault takes.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid is 422: Error.Fields says which field breaks which rule.
	ErrInvalid = errors.New("invalid input")
	// ErrDuplicate is the 422 of a certificate that there is already; it is
	// ErrInvalid too. Error.Existing names the other one.
	ErrDuplicate = errors.New("duplicate")
	// ErrTooManyRequests is 429.
	ErrTooManyRequests = errors.New("too many requests")
	// ErrUnavailable is 503.
	ErrUnavailable = errors.New("unavailable")
)

var kinds = map[int]error{
	http.StatusBadRequest: ErrInvalidOperation, http.StatusUnauthorized: ErrUnauthorized, http.StatusForbidden: ErrForbidden, http.StatusNotFound: ErrNotFound,
	http.StatusConflict: ErrConflict, http.StatusRequestEntityTooLarge: ErrTooLarge, http.StatusUnprocessableEntity: ErrInvalid,
	http.StatusTooManyRequests: ErrTooManyRequests, http.StatusServiceUnavailable: ErrUnavailable,
}

// Error is an answer that is no success.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is the vault's own, for people.
	Message string
	// Fields are the messages for each field that breaks a rule.
	Fields map[string][]string
	// RequestID is the id under which the request is in the vault's log.
	RequestID string
	// RetryAfter is how long the vault asks to wait; 0 where it does not.
	RetryAfter time.Duration
}

// existingField names, in the answer to a duplicate, the certificate there is.
const existingField = "existing_uuid"

// Error gives the vault's message, the status and the request id.
func (e *Error) Error() string {
	text := e.Message
	if text == "" {
		text = http.StatusText(e.Status)
	}
	text += " (" + strconv.Itoa(e.Status)
	if e.RequestID != "" {
		text += ", request " + e.RequestID
	}
	return text + ")"
}

// Is tells whether the error is of a kind.
func (e *Error) Is(target error) bool {
	if target == ErrDuplicate {
		return e.Existing() != ""
	}
	return target == kinds[e.Status] && target != nil
}

// Existing gives the UUID of the certificate of which a duplicate was refused;
// empty for other errors.
func (e *Error) Existing() string {
	if len(e.Fields[existingField]) == 0 {
		return ""
	}
	return e.Fields[existingField][0]
}

// Detail gives every message for every field, in the order of their names, or
// the message where there are no fields.
func (e *Error) Detail() string {
	if len(e.Fields) == 0 {
		return e.Message
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		lines = append(lines, name+": "+strings.Join(e.Fields[name], " "))
	}
	return strings.Join(lines, "; ")
}

// problem reads an answer that is no success. What is no JSON of the vault's own
// may come from a proxy before it; then the status alone counts.
func problem(res *http.Response) error {
	e := &Error{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id"), RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	var said struct {
		Message string              `json:"message"`
		Errors  map[string][]string `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, maxProblem)).Decode(&said) == nil {
		e.Message, e.Fields = said.Message, said.Errors
	}
	return e
}

// retryAfter reads seconds, or a date (RFC 9110, 10.2.3).
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
