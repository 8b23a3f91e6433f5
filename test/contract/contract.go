// Package contract checks requests to a vault, its responses and its webhook deliveries against its
// OpenAPI document. The package is for tests only.
package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// maxBody is the maximum size in bytes of a request body that is checked.
const maxBody = 1 << 20

// generalHeaders are response headers that the document need not list.
var generalHeaders = []string{
	"Accept-Ranges", "Alt-Svc", "Cache-Control", "Connection", "Content-Encoding", "Content-Length", "Content-Security-Policy", "Content-Type", "Date",
	"Etag", "Last-Modified", "Referrer-Policy", "Refresh", "Strict-Transport-Security", "Vary", "X-Content-Type-Options", "X-Robots-Tag",
}

// Checker checks exchanges against an OpenAPI document and records the operations that succeeded.
type Checker struct {
	doc    *openapi3.T
	router routers.Router

	mu     sync.Mutex
	driven map[string]bool
}

// New returns a Checker for an OpenAPI document. It returns an error if the document or one of its
// examples is not valid.
func New(ctx context.Context, document []byte) (*Checker, error) {
	registerForms()
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	if err := doc.Validate(ctx, openapi3.EnableExamplesValidation(), openapi3.EnableSchemaFormatValidation(), openapi3.EnableSchemaPatternValidation()); err != nil {
		return nil, fmt.Errorf("the document is not valid: %w", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("reading the document's paths: %w", err)
	}
	return &Checker{doc: doc, router: router, driven: map[string]bool{}}, nil
}

// Operation is an operation of the document, or a webhook.
type Operation struct {
	ID, Method, Path string
	Webhook          bool
	*openapi3.Operation
}

// Operations returns all operations and webhooks of the document, sorted by id.
func (c *Checker) Operations() []Operation {
	var list []Operation
	add := func(items map[string]*openapi3.PathItem, isWebhook bool) {
		for path, item := range items {
			for method, o := range item.Operations() {
				list = append(list, Operation{ID: o.OperationID, Method: method, Path: path, Webhook: isWebhook, Operation: o})
			}
		}
	}
	add(c.doc.Paths.Map(), false)
	add(c.doc.Webhooks, true)
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Document returns the parsed document.
func (c *Checker) Document() *openapi3.T { return c.doc }

// Driven returns the sorted ids of the operations that succeeded at least once as documented, and of
// the webhooks with a delivery that matched the document.
func (c *Checker) Driven() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.driven))
}

func (c *Checker) drive(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.driven[id] = true
}

// Wrap returns a transport that checks each exchange against the document. If an exchange does not
// match, the transport calls report with the first error.
func (c *Checker) Wrap(next http.RoundTripper, report func(error)) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		sent := &bytes.Buffer{}
		if req.Body != nil && req.Body != http.NoBody {
			req = req.Clone(req.Context())
			req.Body = &teeBody{ReadCloser: req.Body, copy: sent}
		}
		res, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		received, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil {
			return nil, fmt.Errorf("reading the response: %w", err)
		}
		res.Body = io.NopCloser(bytes.NewReader(received))
		if err := c.check(req, sent.Bytes(), res, received); err != nil {
			report(fmt.Errorf("%s %s, status %d: %w", req.Method, req.URL.Path, res.StatusCode, err))
		}
		return res, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// teeBody records up to maxBody+1 bytes of a request body.
type teeBody struct {
	io.ReadCloser

	copy *bytes.Buffer
}

func (t *teeBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.copy.Write(p[:min(n, max(0, maxBody+1-t.copy.Len()))])
	return n, err
}

// check checks one exchange against the document. It checks the request only if the request
// succeeded, because tests send invalid requests on purpose. It does not check the response to a
// HEAD request that the document has.
func (c *Checker) check(req *http.Request, sent []byte, res *http.Response, received []byte) error {
	route, params, err := c.router.FindRoute(req)
	if err != nil {
		return c.checkUnknown(res, received)
	}
	if res.StatusCode == http.StatusMethodNotAllowed {
		return c.checkUnknown(res, received)
	}
	ctx := req.Context()
	input := &openapi3filter.RequestValidationInput{
		Request: req.Clone(ctx), PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true, RejectWhenRequestBodyNotSpecified: true,
			ExcludeRequestBody: len(sent) > maxBody,
		},
	}
	// The recorded body is checked, so GetBody must not return another body.
	input.Request.GetBody = nil
	if res.StatusCode < http.StatusBadRequest {
		input.Request.Body = io.NopCloser(bytes.NewReader(sent))
		if err := openapi3filter.ValidateRequest(ctx, input); err != nil {
			return fmt.Errorf("the request does not match the document: %w", err)
		}
		if err := parameters(route, req); err != nil {
			return err
		}
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(received)), Options: input.Options,
	}
	if req.Method == http.MethodHead {
		return nil
	}
	if err := openapi3filter.ValidateResponse(ctx, response); err != nil {
		return fmt.Errorf("the response does not match the document: %w\n%.2000s", err, received)
	}
	if err := headers(route.Operation, res); err != nil {
		return err
	}
	if res.StatusCode < http.StatusBadRequest {
		c.drive(route.Operation.OperationID)
	}
	return nil
}

// checkUnknown checks a response with the status 405, or the response to a request whose route or method
// is not in the document. The status must be at least 400, and the body must be an HTML page or match the
// schema Error. A response with the status 405 must have an Allow header.
func (c *Checker) checkUnknown(res *http.Response, received []byte) error {
	if res.StatusCode < http.StatusBadRequest {
		return errors.New("the document does not have this route")
	}
	if res.StatusCode == http.StatusMethodNotAllowed && res.Header.Get("Allow") == "" {
		return errors.New("a response with the status 405 has no Allow header")
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		return nil
	}
	return c.value("Error", received)
}

// value checks JSON text against the schema with the given name.
func (c *Checker) value(schema string, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return fmt.Errorf("%.200q is not JSON: %w", text, err)
	}
	return c.doc.Components.Schemas[schema].Value.VisitJSON(v, openapi3.EnableJSONSchema2020())
}

// parameters returns an error if the request has a query parameter that the document does not have.
func parameters(route *routers.Route, req *http.Request) error {
	for name := range req.URL.Query() {
		if route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			return fmt.Errorf("the document does not have the parameter %s", name)
		}
	}
	return nil
}

// headers returns an error if the response has a header that the document does not have, except
// general headers and the headers for rate limits and CORS.
func headers(o *openapi3.Operation, res *http.Response) error {
	documented := o.Responses.Status(res.StatusCode).Value.Headers
	for name := range res.Header {
		named := slices.ContainsFunc(slices.Collect(maps.Keys(documented)), func(s string) bool { return strings.EqualFold(s, name) })
		if !named && !slices.Contains(generalHeaders, name) && !strings.HasPrefix(name, "X-Ratelimit-") && !strings.HasPrefix(name, "Access-Control-") {
			return fmt.Errorf("the document does not have the response header %s", name)
		}
	}
	return nil
}

// Delivery checks a webhook delivery against the document. If header is nil, Delivery checks only
// the body.
func (c *Checker) Delivery(header http.Header, body []byte) error {
	var event struct {
		Event string `json:"event"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return fmt.Errorf("the delivery is not JSON: %w", err)
	}
	item := c.doc.Webhooks[event.Event]
	if item == nil || item.Post == nil {
		return fmt.Errorf("the document does not have the event %q", event.Event)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("the delivery is not JSON: %w", err)
	}
	if err := item.Post.RequestBody.Value.Content.Get("application/json").Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		return fmt.Errorf("the delivery does not match the document: %w\n%s", err, body)
	}
	if header != nil {
		for _, p := range item.Post.Parameters {
			value := header.Get(p.Value.Name)
			if value == "" && p.Value.Required {
				return fmt.Errorf("the delivery has no header %s", p.Value.Name)
			}
			if !p.Value.Schema.Value.Type.Is("string") {
				continue
			}
			if err := p.Value.Schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
				return fmt.Errorf("the header %s of the delivery does not match the document: %w", p.Value.Name, err)
			}
		}
	}
	c.drive(item.Post.OperationID)
	return nil
}
