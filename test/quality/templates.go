package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/certvault/certvault/test/vault"
)

// templates adds the pages about templates, and the pages that achievements, approvals, issue and
// applications add. session is the session of the institution's owner.
func (f *fixture) templates(ctx context.Context, v *vault.Vault, slug, session string) error {
	c, err := v.Client("")
	if err != nil {
		return err
	}
	c.Session = session
	panel := "/panel/" + slug
	published, err := f.template(ctx, c, panel, "Diploma", "meridian")
	if err != nil {
		return err
	}
	if a, err := c.PostForm(ctx, published+"/design/publish", url.Values{"revision": {"1"}}); err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("publishing a template: %+v: %w", a, err)
	}
	draft, err := f.template(ctx, c, panel, "Attendance", "letterpress")
	if err != nil {
		return err
	}
	// This layout has two problems: there is no QR code, and the box is too small for the name.
	layout := `{"revision": 1, "name": "Attendance", "layout": {"fields": [{"id": "f1", "kind": "name", "page": 1, "box": [100, 200, 20, 30],
		"text": "{name}", "font": {"family": "Inter"}, "size": 30, "min_size": 24}]}}`
	a, err := c.PostJSON(ctx, draft+"/design", layout)
	if err != nil || a.Status != http.StatusOK || !json.Valid(a.Body) {
		return fmt.Errorf("saving a layout: %+v: %w", a, err)
	}
	archived, err := f.template(ctx, c, panel, "Old diploma", "token")
	if err != nil {
		return err
	}
	if a, err := c.PostForm(ctx, archived+"/archive", url.Values{}); err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("archiving a template: %+v: %w", a, err)
	}
	edited, err := f.template(ctx, c, panel, "Certificate of completion", "heritage")
	if err != nil {
		return err
	}
	for name, path := range map[string]string{
		"templates": panel + "/templates", "templates-archived": panel + "/templates?archived=1", "template-new": panel + "/templates/new",
		"template": published, "template-draft": draft, "template-archived": archived, "template-delete": draft + "/delete",
		"designer": edited + "/design", "designer-moved": edited + "/design?moved=name&moved=qr",
		"template-design": edited + "/design/replace", "designer-problems": draft + "/design?field=f1", "fonts": panel + "/fonts",
	} {
		f.show(name, v.URL+path, http.StatusOK, session)
	}
	if err := f.achievements(ctx, v, c, panel, session); err != nil {
		return err
	}
	if err := f.approvals(ctx, v, c, panel); err != nil {
		return err
	}
	if err := f.issue(ctx, v, c, published); err != nil {
		return err
	}
	return f.applications(ctx, v, slug, session, lastPart(published))
}

// template creates a template from a built-in design, and returns its path.
func (f *fixture) template(ctx context.Context, c *vault.Client, panel, name, design string) (string, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, field := range [][2]string{{"from", "design"}, {"name", name}, {"design", design}, {"paper", "a4"}, {"accent", "#0b5d4b"}} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return "", fmt.Errorf("writing a form: %w", err)
		}
	}
	if err := form.Close(); err != nil {
		return "", fmt.Errorf("writing a form: %w", err)
	}
	req, err := c.Request(ctx, http.MethodPost, panel+"/templates", &b)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	a, err := c.Send(req)
	if err != nil || a.Status != http.StatusSeeOther {
		return "", fmt.Errorf("creating a template: %+v: %w", a, err)
	}
	return strings.TrimSuffix(a.Header.Get("Location"), "/design"), nil
}
