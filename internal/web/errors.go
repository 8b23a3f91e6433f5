package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

// maxFieldErrors is the maximum number of messages in one response.
const maxFieldErrors = 1000

var statuses = map[fault.Kind]int{
	fault.Internal:           http.StatusInternalServerError,
	fault.Invalid:            http.StatusUnprocessableEntity,
	fault.BadRequest:         http.StatusBadRequest,
	fault.Unauthorized:       http.StatusUnauthorized,
	fault.Forbidden:          http.StatusForbidden,
	fault.NotFound:           http.StatusNotFound,
	fault.NotAllowed:         http.StatusMethodNotAllowed,
	fault.TimedOut:           http.StatusRequestTimeout,
	fault.Conflict:           http.StatusConflict,
	fault.TooLarge:           http.StatusRequestEntityTooLarge,
	fault.Unsupported:        http.StatusUnsupportedMediaType,
	fault.OutOfRange:         http.StatusRequestedRangeNotSatisfiable,
	fault.PreconditionFailed: http.StatusPreconditionFailed,
	fault.TooMany:            http.StatusTooManyRequests,
	fault.Unavailable:        http.StatusServiceUnavailable,
	fault.Damaged:            http.StatusInternalServerError,
}

// statusClientClosed is the status in the log for a request whose client closed the connection. The
// client does not receive it.
const statusClientClosed = 499

// Explain returns the status and the public message of an error. It sets the headers Retry-After and
// WWW-Authenticate if the error needs them. It also records an error for the log if it is
// internal or of the kind fault.Unavailable or fault.Damaged.
func Explain(w http.ResponseWriter, r *http.Request, err error) (status int, message string) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return statusClientClosed, "Client Closed Request"
	}
	err = withOutage(err)
	status = Status(err)
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind == fault.Internal {
		requestOf(r).err = err
		return status, "Server Error"
	}
	retry := e.RetryAfter
	if e.Kind == fault.Unavailable || e.Kind == fault.Damaged {
		requestOf(r).err = err
	}
	if e.Kind == fault.Unavailable {
		retry = cmp.Or(retry, outageRetry)
	}
	if retry > 0 {
		w.Header().Set("Retry-After", RetryAfter(retry))
	}
	if e.Kind == fault.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	return status, messageOf(e)
}

// RetryAfter returns the value of the header Retry-After: wait in seconds, rounded up (RFC 9110, 10.2.3).
func RetryAfter(wait time.Duration) string { return strconv.Itoa(int(math.Ceil(wait.Seconds()))) }

// messageOf returns the message of an error. If the error has no message, messageOf returns the first
// message of its fields and the number of further messages.
func messageOf(e *fault.Error) string {
	if e.Message != "" || len(e.Fields) == 0 {
		return e.Message
	}
	more := -1
	for _, f := range e.Fields {
		more += len(f.Messages)
	}
	first := e.Fields[0].Messages[0]
	switch {
	case more == 1:
		return first + " (and 1 more error)"
	case more > 1:
		return fmt.Sprintf("%s (and %d more errors)", first, more)
	default:
		return first
	}
}

// orderedFields is marshaled to a JSON object with the fields in the order of the slice.
type orderedFields []fault.Field

// MarshalJSON writes at most maxFieldErrors messages.
func (f orderedFields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	written := 0
	for i, field := range f {
		if written >= maxFieldErrors {
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		messages := field.Messages[:min(len(field.Messages), maxFieldErrors-written)]
		written += len(messages)
		name, err := json.Marshal(field.Name)
		if err != nil {
			return nil, err
		}
		list, err := json.Marshal(messages)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(list)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Problem is the body of an error response.
type Problem struct {
	Message string        `json:"message"`
	Errors  orderedFields `json:"errors,omitempty"`
}

// ProblemOf is like Explain, but the result includes the field errors of fault.Invalid.
func ProblemOf(w http.ResponseWriter, r *http.Request, err error) (status int, p Problem) {
	status, p.Message = Explain(w, r, err)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Invalid {
		p.Errors = e.Fields
	}
	return status, p
}

// WriteJSONError writes the Problem of an error as JSON.
func WriteJSONError(w http.ResponseWriter, r *http.Request, err error) {
	status, body := ProblemOf(w, r, err)
	w.Header().Set("Cache-Control", "no-store")
	if err := WriteJSON(w, status, body); err != nil {
		requestOf(r).err = errors.Join(requestOf(r).err, err)
	}
}

// JSON encodes a body in the format of JSON responses.
func JSON(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("encoding the response: %w", err)
	}
	return b.Bytes(), nil
}

// WriteJSON writes a JSON response.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	b, err := JSON(body)
	if err != nil {
		return err
	}
	SendJSON(w, status, b)
	return nil
}

// SendJSON writes a JSON response that is already encoded. It ignores the error of a write, because
// the error cannot be reported to the client.
func SendJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
