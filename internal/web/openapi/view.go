package openapi

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/certvault/certvault/internal/web"
)

//go:embed templates
var templates embed.FS

//go:embed assets
var assetFiles embed.FS

// view renders pages.
type view struct {
	template *template.Template
	// drill reports whether the vault is a drill of a restore.
	drill bool
}

// newView parses the templates and adds the assets to served. The name of each asset contains a digest of
// its content.
func newView(served map[string]*content) (*view, error) {
	names := map[string]string{}
	entries, err := fs.ReadDir(assetFiles, "assets")
	if err != nil {
		return nil, fmt.Errorf("reading assets: %w", err)
	}
	for _, e := range entries {
		body, err := fs.ReadFile(assetFiles, "assets/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("reading asset %s: %w", e.Name(), err)
		}
		ext := path.Ext(e.Name())
		c := newContent(mime.TypeByExtension(ext), body)
		name := strings.TrimSuffix(e.Name(), ext) + "." + c.tag + ext
		names[e.Name()], served[name] = name, c
	}
	t, err := template.New("layout.html").Funcs(template.FuncMap{
		"asset": func(name string) (string, error) {
			if names[name] == "" {
				return "", fmt.Errorf("there is no asset %s", name)
			}
			return "/docs/assets/" + names[name], nil
		},
		"spans": spans,
	}).ParseFS(templates, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("reading templates: %w", err)
	}
	return &view{template: t}, nil
}

func (v *view) draw(p *page) ([]byte, error) {
	p.Drill = v.drill
	var b bytes.Buffer
	if err := v.template.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("rendering the page %q: %w", p.Title, err)
	}
	return b.Bytes(), nil
}

// render writes an error as JSON if the header Accept contains application/json or the path is
// /openapi.json, and otherwise as a page.
func (d *Docs) render(w http.ResponseWriter, r *http.Request, err error) {
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "application/json") || r.URL.Path == "/openapi.json" {
		web.WriteJSONError(w, r, err)
		return
	}
	status, text := web.Explain(w, r, err)
	body, err := d.view.draw(&page{Title: http.StatusText(status), Error: text})
	if err != nil {
		http.Error(w, text, status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	pageHeaders(w)
	w.WriteHeader(status)
	_, _ = w.Write(body) // the error of a write cannot be reported to the client
}
