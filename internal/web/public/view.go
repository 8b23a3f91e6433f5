package public

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"text/template/parse"
	"time"

	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/web"
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
	pages     map[string]*template.Template
	// version is the digest of all assets and part of their address, so that they
	// can be kept for good and modules find each other by relative names.
	version string
	files   map[string]asset
}

type asset struct{ plain, compressed []byte }

func newView() (*view, error) {
	v := &view{pages: map[string]*template.Template{}, files: map[string]asset{}}
	var err error
	if v.languages, err = locale.Load(); err != nil {
		return nil, err
	}
	if err := v.loadAssets(); err != nil {
		return nil, err
	}
	funcs := template.FuncMap{
		"asset": v.address, "code": code,
		"pair": func(g *page, value string) pair { return pair{g, value} },
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
		if err := v.checkMessages(t); err != nil {
			return nil, fmt.Errorf("reading template %s: %w", base, err)
		}
		v.pages[base] = t
	}
	return v, nil
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
		compressed, err := web.Gzip(content, gzip.BestCompression)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "assets/")
		_, _ = fmt.Fprintf(all, "%s %d\n%s", name, len(content), content)
		v.files[name] = asset{content, compressed}
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

// checkMessages holds that the templates name messages that there are: they are
// written out, so that a misspelt one is found before anyone sees the page.
func (v *view) checkMessages(t *template.Template) error {
	for _, part := range t.Templates() {
		if part.Tree == nil {
			continue
		}
		if err := walk(part.Tree.Root, func(c *parse.CommandNode) error {
			if !isMessage(c.Args[0]) {
				return nil
			}
			if len(c.Args) < 2 {
				return fmt.Errorf("%s names no message", c)
			}
			key, ok := c.Args[1].(*parse.StringNode)
			if !ok || !v.languages.Languages()[0].Has(key.Text) {
				return fmt.Errorf("there is no message %s", c.Args[1])
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// isMessage tells whether a command asks for a message: .T, .H, $.T, $.H.
func isMessage(n parse.Node) bool {
	var names []string
	switch n := n.(type) {
	case *parse.FieldNode:
		names = n.Ident
	case *parse.VariableNode:
		names = n.Ident
	default:
		return false
	}
	last := names[len(names)-1]
	return last == "T" || last == "H"
}

// walk calls f with every command below a node.
func walk(n parse.Node, f func(*parse.CommandNode) error) error {
	var below []parse.Node
	branch := func(b *parse.BranchNode) {
		below = append(below, b.Pipe, b.List)
		if b.ElseList != nil {
			below = append(below, b.ElseList)
		}
	}
	switch n := n.(type) {
	case *parse.ListNode:
		below = n.Nodes
	case *parse.ActionNode:
		below = []parse.Node{n.Pipe}
	case *parse.TemplateNode:
		if n.Pipe != nil {
			below = []parse.Node{n.Pipe}
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			below = append(below, c)
		}
	case *parse.CommandNode:
		if err := f(n); err != nil {
			return err
		}
		below = n.Args
	}
	for _, b := range below {
		if err := walk(b, f); err != nil {
			return err
		}
	}
	return nil
}

// page draws a page whole before any of it is sent, so that a template that
// fails is an error and not half a page.
func (v *view) page(w http.ResponseWriter, r *http.Request, status int, name string, data any) error {
	t, ok := v.pages[name]
	if !ok {
		return fmt.Errorf("there is no page %s", name)
	}
	g := v.reader(r)
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
	return web.WriteBody(w, r, status, b.Bytes())
}

// asset serves a style, module or picture.
func (v *view) asset(w http.ResponseWriter, r *http.Request) error {
	name := path.Join(r.PathValue("folder"), r.PathValue("file"))
	a, ok := v.files[name]
	if !ok || r.PathValue("version") != v.version {
		return errUnknownPage
	}
	h := w.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	content := a.plain
	if web.AcceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		content = a.compressed
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
	return nil
}
