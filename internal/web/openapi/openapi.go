// Package openapi owns the description of the vault's HTTP interface: one OpenAPI document, which
// is available at /openapi.json and as pages under /docs. People edit openapi.yaml. The command gen
// converts it to openapi.json, which the vault embeds. A test of package app compares the document with
// the routes of the vault.
package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // to embed the document
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/limit"
	"github.com/certvault/certvault/internal/web"
)

//go:generate go run ./gen openapi.yaml openapi.json

//go:embed openapi.json
var source []byte

// policy permits a page to load styles and images of the vault, and nothing else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var errNoPage = fault.New(fault.NotFound, "There is no such page.")

// Docs has the document and its pages. The first request renders both, because rendering at the start
// would make every start slower.
type Docs struct {
	counter  *limit.Counter
	rendered func() (*rendered, error)
	assets   map[string]*content
	view     *view

	patterns []string
}

// rendered is the document, and the pages by the names in their URLs.
type rendered struct {
	json  *content
	pages map[string]*content
}

// content is a response: its body, its ETag and its media type.
type content struct {
	body []byte
	tag  string
	kind string
}

func newContent(kind string, body []byte) *content {
	sum := sha256.Sum256(body)
	return &content{body: body, kind: kind, tag: base64.RawURLEncoding.EncodeToString(sum[:12])}
}

// New returns the document and its pages for a vault with the given base URL. counter limits the requests
// of each client address. If drill is true, each page shows that the vault is a drill of a restore.
func New(base string, counter *limit.Counter, drill bool) (*Docs, error) {
	d := &Docs{counter: counter, assets: map[string]*content{}}
	var err error
	if d.view, err = newView(d.assets); err != nil {
		return nil, err
	}
	d.view.drill = drill
	d.rendered = sync.OnceValues(func() (*rendered, error) { return d.view.drawAll(base) })
	return d, nil
}

// drawAll renders the document and its pages.
func (v *view) drawAll(base string) (*rendered, error) {
	doc, err := read(source, base)
	if err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document: %w", err)
	}
	r := &rendered{json: newContent("application/json", doc.json), pages: map[string]*content{}}
	for name, p := range pagesOf(doc) {
		body, err := v.draw(p)
		if err != nil {
			return nil, err
		}
		r.pages[name] = newContent("text/html; charset=utf-8", body)
	}
	return r, nil
}

// Handler returns the handler for all routes.
func (d *Docs) Handler() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, f web.Func) {
		d.patterns = append(d.patterns, pattern)
		mux.Handle(pattern, web.Handler(d.render, func(w http.ResponseWriter, r *http.Request) error {
			if err := web.Throttle(w, d.counter, limit.AddressKey(web.Client(r))); err != nil {
				return err
			}
			return f(w, r)
		}))
	}
	route("GET /openapi.json", d.document)
	route("GET /docs", d.page)
	route("GET /docs/{page}", d.page)
	mux.Handle("GET /docs/assets/{file}", web.Handler(d.render, d.asset))
	return web.Routes(mux, d.render)
}

// Patterns returns the patterns of the routes, without the route of assets. The list is empty before
// Handler is called.
func (d *Docs) Patterns() []string { return d.patterns }

func (d *Docs) document(w http.ResponseWriter, r *http.Request) error {
	all, err := d.rendered()
	if err != nil {
		return err
	}
	return all.json.serve(w, r)
}

func (d *Docs) page(w http.ResponseWriter, r *http.Request) error {
	all, err := d.rendered()
	if err != nil {
		return err
	}
	p, ok := all.pages[r.PathValue("page")]
	if !ok {
		return errNoPage
	}
	pageHeaders(w)
	return p.serve(w, r)
}

// asset writes a style or an image. The name of the file contains a digest of its content, so browsers
// may cache it for a year.
func (d *Docs) asset(w http.ResponseWriter, r *http.Request) error {
	a, ok := d.assets[r.PathValue("file")]
	if !ok {
		return errNoPage
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.body))
	return nil
}

func (c *content) serve(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Content-Type", c.kind)
	return web.ServeContent(w, r, bytes.NewReader(c.body), c.tag)
}

func pageHeaders(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
}
