package main

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"

	"github.com/certvault/certvault/test/vault"
)

// issue adds the pages for issuing certificates from a published template: the form for one certificate,
// and the steps of a list. published is the path of the template.
func (f *fixture) issue(ctx context.Context, v *vault.Vault, c *vault.Client, published string) error {
	var drafts [3]string
	for i, list := range []string{
		"", "Name,Mail,Exam\nAda Obi,ada.obi@example.org,1\n",
		"Name,E-mail\nAda Obi,ada.obi@example.org\nمحمد بن عبد العزيز,mohammed@example.org\nZoë 𓀀 Smith,zoe@example.org\n",
	} {
		a, err := c.PostForm(ctx, published+"/list", url.Values{})
		if err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("starting a list for a template: %+v: %w", a, err)
		}
		drafts[i] = a.Header.Get("Location")
		if list == "" {
			continue
		}
		if err := sendList(ctx, c, drafts[i], list); err != nil {
			return err
		}
	}
	columns := url.Values{"full_name": {"0"}, "email": {"1"}, "title": {"-1"}, "same_title": {"Bachelor of Arts"}}
	if a, err := c.PostForm(ctx, drafts[2]+"/columns", columns); err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("confirming the columns of a list for a template: %+v: %w", a, err)
	}
	for name, path := range map[string]string{
		"issue": published + "/issue", "issue-list": drafts[0], "issue-columns": drafts[1] + "/columns",
		"issue-rows": drafts[2] + "/rows?show=problems", "issue-row": drafts[2] + "/rows/2", "issue-summary": drafts[2] + "/submit",
	} {
		f.show(name, v.URL+path, http.StatusOK, c.Session)
	}
	return nil
}

// sendList uploads a list to a bulk upload.
func sendList(ctx context.Context, c *vault.Client, draft, list string) error {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("list", "class of 2026.csv")
	if err == nil {
		_, err = part.Write([]byte(list))
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return fmt.Errorf("writing a form: %w", err)
	}
	req, err := c.Request(ctx, http.MethodPost, draft+"/list", &b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	a, err := c.Send(req)
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("uploading a list: %+v: %w", a, err)
	}
	return nil
}
