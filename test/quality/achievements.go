package main

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"

	"github.com/certvault/certvault/test/vault"
)

var achievementLink = regexp.MustCompile(`/achievements/([0-9a-f-]{36})`)

// achievements creates an achievement and adds the pages about achievements: the list, the form, the form
// with problems, and the pages of the created achievement.
func (f *fixture) achievements(ctx context.Context, v *vault.Vault, c *vault.Client, panel, session string) error {
	list := panel + "/achievements"
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range [][2]string{
		{"title", "BSc Physics"}, {"description", "Three years of physics."}, {"criteria", "All examinations passed."}, {"skills", "Optics\nMechanics"},
	} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return fmt.Errorf("writing the form of an achievement: %w", err)
		}
	}
	if err := form.Close(); err != nil {
		return fmt.Errorf("writing the form of an achievement: %w", err)
	}
	req, err := c.Request(ctx, http.MethodPost, list+"/new", &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	if a, err := c.Send(req); err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("creating an achievement: %+v: %w", a, err)
	}
	a, err := c.Get(ctx, list)
	if err != nil {
		return err
	}
	found := achievementLink.FindSubmatch(a.Body)
	if found == nil {
		return fmt.Errorf("the list of achievements has no achievement: %s", a.Body)
	}
	one := list + "/" + string(found[1])
	for name, path := range map[string]string{"achievements": list, "achievement-new": list + "/new", "achievement": one, "achievement-delete": one + "/delete"} {
		f.show(name, v.URL+path, http.StatusOK, session)
	}
	p := f.show("achievement-problems", v.URL+list+"/new", http.StatusUnprocessableEntity, session)
	p.Form, p.Multipart = url.Values{"title": {""}, "criteria_url": {"http://criteria.example"}}, true
	return nil
}
