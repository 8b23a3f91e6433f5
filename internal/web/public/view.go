package public

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"time"

	"github.com/certvault/certvault/internal/fault"
)

//go:embed templates
var templates embed.FS

//go:embed assets
var assets embed.FS

// pagePolicy lets a page load our own style and pictures, send our own forms,
// and nothing else.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

var errUnknownPage = fault.New(fault.NotFound, "There is no such page.")

// view draws pages.
type view struct {
	pages map[string]*template.Template
	// names gives each asset the name under which it is served: with its digest,
	// so that it can be kept for good.
	names map[string]string
	files map[string][]byte
}

func newView() (*view, error) {
	v := &view{pages: map[string]*template.Template{}, names: map[string]string{}, files: map[string][]byte{}}
	if err := v.loadAssets(); err != nil {
		return nil, err
	}
	funcs := template.FuncMap{
		"asset": func(name string) (string, error) {
			served, ok := v.names[name]
			if !ok {
				return "", fmt.Errorf("there is no asset %s", name)
			}
			return "/assets/" + served, nil
		},
		"date": shownDate,
		"time": shownTime,
	}
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("reading templates: %w", err)
	}
	for _, name := range names {
		base := path.Base(name)
		if base == "layout.html" || base == "parts.html" {
			continue
		}
		t, err := template.New("layout.html").Funcs(funcs).ParseFS(templates, "templates/layout.html", "templates/parts.html", name)
		if err != nil {
			return nil, fmt.Errorf("reading template %s: %w", base, err)
		}
		v.pages[base] = t
	}
	return v, nil
}

func (v *view) loadAssets() error {
	entries, err := fs.ReadDir(assets, "assets")
	if err != nil {
		return fmt.Errorf("reading assets: %w", err)
	}
	for _, e := range entries {
		content, err := fs.ReadFile(assets, "assets/"+e.Name())
		if err != nil {
			return fmt.Errorf("reading asset %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(content)
		ext := path.Ext(e.Name())
		served := e.Name()[:len(e.Name())-len(ext)] + "." + base64.RawURLEncoding.EncodeToString(sum[:9]) + ext
		v.names[e.Name()] = served
		v.files[served] = content
	}
	return nil
}

// page draws a page whole before any of it is sent, so that a template that
// fails is an error and not half a page.
func (v *view) page(w http.ResponseWriter, status int, name string, data any) error {
	t, ok := v.pages[name]
	if !ok {
		return fmt.Errorf("there is no page %s", name)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
	if _, err := w.Write(b.Bytes()); err != nil {
		return nil //nolint:nilerr // the client is gone; there is nobody to tell
	}
	return nil
}

// asset serves a style or picture.
func (v *view) asset(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	content, ok := v.files[name]
	if !ok {
		return errUnknownPage
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return nil
}

// shownDate writes a stored date, YYYY-MM-DD or RFC 3339, as "2 January 2006".
func shownDate(s *string) string {
	if s == nil || len(*s) < len(time.DateOnly) {
		return ""
	}
	t, err := time.Parse(time.DateOnly, (*s)[:len(time.DateOnly)])
	if err != nil {
		return *s
	}
	return t.Format("2 January 2006")
}

// shownTime writes a stored time as "2 January 2006, 15:04 UTC".
func shownTime(s *string) string {
	if s == nil {
		return ""
	}
	t, err := time.Parse(time.RFC3339Nano, *s)
	if err != nil {
		return *s
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}
