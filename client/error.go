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

// Kinds of errors for errors.Is.
var (
	// ErrInvalidOperation is 400: the state of the record does not allow the call, for example a
	// retry of a certificate that has not failed.
	ErrInvalidOperation = errors.New("invalid operation")
	// ErrUnauthorized is 401: the token is missing, unknown, expired or revoked.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden is 403: for example, the token lacks the permission.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound is 404: the record or its file does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict is 409: the same call is still in progress, or another reviewer changed the
	// application at the same time.
	ErrConflict = errors.New("conflict with another call")
	// ErrTooLarge is 413: the body exceeds the vault's limit.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid is 422: Error.Fields names the invalid fields.
	ErrInvalid = errors.New("invalid input")
	// ErrDuplicate is 422: the certificate or an open application already exists. Error.Existing returns
	// its UUID. A duplicate is also ErrInvalid.
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

// Error is an unsuccessful response.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Message is the vault's message for people.
	Message string
	// Fields contains the messages of each invalid field and, for a duplicate, the UUID of the
	// existing certificate or application.
	Fields map[string][]string
	// RequestID identifies the request in the vault's log.
	RequestID string
	// RetryAfter is the wait that the vault requires, or 0.
	RetryAfter time.Duration
}

// existingField is the key in Error.Fields for the UUID of the existing certificate or application.
const existingField = "existing_uuid"

// Error returns the message, or the text of the HTTP status if there is no message, followed by the
// status and the request id.
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

// Is reports whether the error is of the kind target.
func (e *Error) Is(target error) bool {
	if target == ErrDuplicate {
		return e.Existing() != ""
	}
	return target == kinds[e.Status] && target != nil
}

// Existing returns the UUID of the existing certificate or application if the error is a duplicate, or "".
func (e *Error) Existing() string {
	if len(e.Fields[existingField]) == 0 {
		return ""
	}
	return e.Fields[existingField][0]
}

// Detail returns each field's name and messages in the order of the names, or Message if there are
// no fields. For a duplicate, Detail returns the message and the UUID that Existing returns.
func (e *Error) Detail() string {
	if existing := e.Existing(); existing != "" {
		return strings.TrimSuffix(e.Message, ".") + ": " + existing
	}
	if len(e.Fields) == 0 {
		return e.Message
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		lines = append(lines, name+": "+strings.Join(e.Fields[name], " "))
	}
	return strings.Join(lines, "; ")
}

// problem returns an unsuccessful response as an *Error. If the response is not JSON, for example because
// a proxy sent it, the error has no message and no fields.
func problem(res *http.Response) error {
	e := &Error{Status: res.StatusCode, RequestID: res.Header.Get("X-Request-Id"), RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	var body struct {
		Message string              `json:"message"`
		Errors  map[string][]string `json:"errors"`
	}
	if json.NewDecoder(io.LimitReader(res.Body, maxProblem)).Decode(&body) == nil {
		e.Message, e.Fields = body.Message, body.Errors
	}
	return e
}

// retryAfter parses a number of seconds or a date (RFC 9110, 10.2.3). It returns 0 for an invalid
// value or a time in the past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
