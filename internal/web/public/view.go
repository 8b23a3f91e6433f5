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
	"strings"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
)

//go:embed templates
var templates embed.FS

// The decoder is named so that a build without it fails.
//
//go:embed assets assets/qr/decode.js assets/qr/index.js
var assets embed.FS

// pagePolicy lets a page load our own style, modules and pictures, ask our own
// routes, send our own forms, and nothing else. No text ever becomes markup or
// code in the browser (Trusted Types with no policy at all).
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

var errUnknownPage = fault.New(fault.NotFound, "There is no such page.")

// view draws pages.
type view struct {
	languages *locale.Catalog
	// pages are by language and name.
	pages map[string]map[string]*template.Template
	// version is the digest of all assets and part of their address, so that they
	// can be kept for good and modules find each other by relative names.
	version string
	files   map[string][]byte
}

func newView() (*view, error) {
	v := &view{pages: map[string]map[string]*template.Template{}, files: map[string][]byte{}}
	var err error
	if v.languages, err = locale.Load(); err != nil {
		return nil, err
	}
	if err := v.loadAssets(); err != nil {
		return nil, err
	}
	for _, l := range v.languages.Languages() {
		if err := v.loadPages(l); err != nil {
			return nil, fmt.Errorf("reading templates for %s: %w", l.Tag, err)
		}
	}
	return v, nil
}

// loadPages reads the templates once for each language, so that what a page
// always says is set in it and costs nothing when it is drawn.
func (v *view) loadPages(l *locale.Language) error {
	v.pages[l.Tag] = map[string]*template.Template{}
	funcs := template.FuncMap{
		"asset": v.address, "code": code,
		"pair": func(g *page, value string) pair { return pair{g, value} },
	}
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return err
	}
	for _, name := range names {
		base := path.Base(name)
		if base == "layout.html" || base == "parts.html" {
			continue
		}
		t, err := template.New("layout.html").Funcs(funcs).ParseFS(templates, "templates/layout.html", "templates/parts.html", name)
		if err != nil {
			return err
		}
		if err := setMessages(t, l); err != nil {
			return fmt.Errorf("%s: %w", base, err)
		}
		v.pages[l.Tag][base] = t
	}
	return nil
}

func (v *view) loadAssets() error {
	all := sha256.New()
	err := fs.WalkDir(assets, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(assets, name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "assets/")
		_, _ = fmt.Fprintf(all, "%s %d\n%s", name, len(content), content)
		v.files[name] = content
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading assets: %w", err)
	}
	v.version = base64.RawURLEncoding.EncodeToString(all.Sum(nil)[:9])
	return nil
}

// address gives the address of an asset.
func (v *view) address(name string) (string, error) {
	if _, ok := v.files[name]; !ok {
		return "", fmt.Errorf("there is no asset %s", name)
	}
	return "/assets/" + v.version + "/" + name, nil
}

// code marks up what is written by machines and reads from left to right in
// every language.
func code(s string) template.HTML {
	return template.HTML(`<code dir="ltr">` + template.HTMLEscapeString(s) + `</code>`) //nolint:gosec // it is escaped
}

// page draws a page whole before any of it is sent, so that a template that
// fails is an error and not half a page.
func (v *view) page(w http.ResponseWriter, r *http.Request, status int, name string, data any) error {
	g := v.reader(r)
	t, ok := v.pages[g.Language.Tag][name]
	if !ok {
		return fmt.Errorf("there is no page %s", name)
	}
	g.Data = data
	g.Indexed = status == http.StatusOK && (name == "lookup.html" || name == "signatures.html")
	var b bytes.Buffer
	if err := t.Execute(&b, g); err != nil {
		return fmt.Errorf("drawing %s: %w", name, err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", g.Language.Tag)
	h.Add("Vary", "Accept-Language")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Permissions-Policy", "camera=(self), microphone=(), geolocation=()")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	if !g.Indexed {
		h.Set("X-Robots-Tag", "noindex")
	}
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a client that is gone needs no page
	return nil
}

// asset serves a style, module or picture.
func (v *view) asset(w http.ResponseWriter, r *http.Request) error {
	name := path.Join(r.PathValue("folder"), r.PathValue("file"))
	content, ok := v.files[name]
	if !ok || r.PathValue("version") != v.version {
		return errUnknownPage
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return nil
}
