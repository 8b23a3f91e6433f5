package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"path"
	"strconv"

	"github.com/certvault/certvault/internal/fault"
)

// maxFieldErrors bounds how many messages one answer lists.
const maxFieldErrors = 1000

var statuses = map[fault.Kind]int{
	fault.Internal:     http.StatusInternalServerError,
	fault.Invalid:      http.StatusUnprocessableEntity,
	fault.BadRequest:   http.StatusBadRequest,
	fault.Unauthorized: http.StatusUnauthorized,
	fault.Forbidden:    http.StatusForbidden,
	fault.NotFound:     http.StatusNotFound,
	fault.NotAllowed:   http.StatusMethodNotAllowed,
	fault.TooLarge:     http.StatusRequestEntityTooLarge,
	fault.Unsupported:  http.StatusUnsupportedMediaType,
	fault.TooMany:      http.StatusTooManyRequests,
	fault.Unavailable:  http.StatusServiceUnavailable,
}

// statusClientGone is logged of a request whose client left; nobody sees it.
const statusClientGone = 499

// Status is the HTTP status of an error.
func Status(err error) int { return statuses[fault.KindOf(err)] }

// Explain gives the status and the message that may be shown, notes a fault of
// ours for the log, and sets the headers that go with the error.
func Explain(w http.ResponseWriter, r *http.Request, err error) (status int, message string) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return statusClientGone, "Client Closed Request"
	}
	status = Status(err)
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Kind == fault.Internal {
		requestOf(r).err = err
		return status, "Server Error"
	}
	if e.Kind == fault.Unavailable {
		requestOf(r).err = err
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if e.Kind == fault.Unauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	return status, messageOf(e)
}

// messageOf is the error's own message, else the first field's with the count
// of the others behind it.
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

// orderedFields marshals as a JSON object in the order in which the fields
// were found.
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

// WriteJSONError answers an error as {"message", "errors"?}.
func WriteJSONError(w http.ResponseWriter, r *http.Request, err error) {
	status, message := Explain(w, r, err)
	body := struct {
		Message string        `json:"message"`
		Errors  orderedFields `json:"errors,omitempty"`
	}{Message: message}
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind == fault.Invalid {
		body.Errors = e.Fields
	}
	w.Header().Set("Cache-Control", "no-store")
	if err := WriteJSON(w, status, body); err != nil {
		requestOf(r).err = errors.Join(requestOf(r).err, err)
	}
}

// WriteJSON answers with a JSON body.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	if _, err := w.Write(b.Bytes()); err != nil {
		// The client is gone; there is nobody to tell.
		return nil //nolint:nilerr // see above
	}
	return nil
}

// Routes serves a mux whose own words for an unknown path or method are not in
// the form of its surface.
func Routes(mux *http.ServeMux, render Renderer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The mux would redirect to the cleaned path; no client of ours means one.
		clean := path.Clean(r.URL.Path) == r.URL.Path || r.URL.Path == ""
		handler, pattern := mux.Handler(r)
		if pattern != "" && clean {
			mux.ServeHTTP(w, r)
			return
		}
		SetRoute(r, "(unknown)")
		if !clean {
			render(w, r, fault.New(fault.NotFound, "The route could not be found."))
			return
		}
		probe := &probe{header: http.Header{}}
		handler.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", probe.header.Get("Allow"))
			render(w, r, fault.New(fault.NotAllowed, "The "+r.Method+" method is not supported for this route."))
			return
		}
		render(w, r, fault.New(fault.NotFound, "The route could not be found."))
	})
}

// probe takes the answer of the mux itself, for its status and Allow header.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }
