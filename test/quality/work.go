package main

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/certvault/certvault/test/vault"
)

// work adds the pages of the panel about uploads, bulk uploads and tasks. session is the
// session of the institution's owner.
func (f *fixture) work(ctx context.Context, v *vault.Vault, slug, session string, made map[string]*vault.Certificate) error {
	c, err := v.Client("")
	if err != nil {
		return err
	}
	c.Session = session
	panel := "/panel/" + slug
	upload, err := f.sendFile(ctx, c, panel+"/upload", "file", "diploma.pdf", f.sample)
	if err != nil {
		return err
	}
	a, err := c.PostForm(ctx, panel+"/bulk", url.Values{})
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("creating a bulk upload: %+v: %w", a, err)
	}
	draft := a.Header.Get("Location")
	list := "Title,Full name,Email,File,Issue date\nBSc Physics,Amina Okafor,amina@example.org,diploma.pdf,2026-06-30\nBSc Physics,Chen Wei,invalid,chen.pdf,30.06.2026\n"
	if _, err := f.sendFile(ctx, c, draft+"/list", "list", "class of 2026.csv", []byte(list)); err != nil {
		return err
	}
	if _, err := f.sendFile(ctx, c, draft+"/files", "files", "diploma.pdf", f.sample); err != nil {
		return err
	}
	a, err = c.PostForm(ctx, draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}, "issue_date": {"4"}})
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("saving the columns: %+v: %w", a, err)
	}
	task, err := f.revokeTwo(ctx, c, panel, made["revoked"].UUID)
	if err != nil {
		return err
	}
	for name, path := range map[string]string{
		"upload": panel + "/upload", "upload-details": upload, "upload-done": panel + "/certificates/" + made["processing"].UUID + "/uploaded",
		"bulk": panel + "/bulk", "bulk-list": draft, "bulk-columns": draft + "/columns",
		"bulk-rows": draft + "/rows?show=problems", "bulk-row": draft + "/rows/3", "bulk-row-place": draft + "/rows/2",
		"bulk-placement": draft + "/placement", "bulk-files": draft + "/files", "bulk-discard": draft + "/discard", "bulk-submit": draft + "/submit",
		"bulk-waits": f.waiting + "/rows", "bulk-all": draft + "/rows", "bulk-done": f.done + "/progress", "batches": panel + "/batches",
		"tasks": panel + "/tasks", "task": task,
	} {
		f.show(name, v.URL+path, http.StatusOK, session)
	}
	return nil
}

// bulks creates two bulk uploads: one that waits for its files, and one that is finished with a
// skipped row.
func (f *fixture) bulks(ctx context.Context, v *vault.Vault, slug string) error {
	c, err := v.Client("")
	if err != nil {
		return err
	}
	if c.Session, err = v.SignIn(ctx, "owner@nwu.example", vault.OwnerPassword); err != nil {
		return err
	}
	post := func(path string, form url.Values) (location string) {
		var a *vault.Response
		if err != nil {
			return ""
		}
		if a, err = c.PostForm(ctx, path, form); err == nil && a.Status != http.StatusSeeOther {
			err = fmt.Errorf("posting to %s: %+v", path, a)
		}
		if err != nil {
			return ""
		}
		return a.Header.Get("Location")
	}
	list := "Title,Full name,Email,File\nBSc Physics,Dana Ito,dana@example.org,diploma.pdf\nBSc Physics,Eli Roth,invalid,eli.pdf\n"
	for _, draft := range []*string{&f.waiting, &f.done} {
		if *draft = post("/panel/"+slug+"/bulk", url.Values{}); err == nil {
			_, err = f.sendFile(ctx, c, *draft+"/list", "list", "late graduates.csv", []byte(list))
		}
		post(*draft+"/columns", url.Values{"title": {"0"}, "full_name": {"1"}, "email": {"2"}, "file": {"3"}})
	}
	if err == nil {
		_, err = f.sendFile(ctx, c, f.done+"/files", "files", "diploma.pdf", f.sample)
	}
	post(f.done+"/rows/3", url.Values{"do": {"skip"}})
	post(f.done+"/submit", url.Values{})
	if err != nil {
		return fmt.Errorf("preparing bulk uploads: %w", err)
	}
	return awaitPage(ctx, c, f.done+"/progress", func(a *vault.Response) bool { return !bytes.Contains(a.Body, []byte("data-progress")) })
}

// revokeTwo starts a task that revokes a new certificate and skips a revoked certificate. It waits until
// the task is finished, and returns the path of the task's page.
func (f *fixture) revokeTwo(ctx context.Context, c *vault.Client, panel, revoked string) (string, error) {
	made, err := f.upload(ctx, "Certificate of Attendance", "Noor Diaz", f.sample, false)
	if err != nil {
		return "", err
	}
	a, err := c.PostForm(ctx, panel+"/certificates/revoke", url.Values{"selected": {made.UUID, revoked}, "reason": {"Issued in error."}, "sure": {"1"}})
	if err != nil || a.Status != http.StatusSeeOther {
		return "", fmt.Errorf("starting a task: %+v: %w", a, err)
	}
	task := a.Header.Get("Location")
	return task, awaitPage(ctx, c, task, func(a *vault.Response) bool { return bytes.Contains(a.Body, []byte("1 certificate revoked")) })
}

// workTime is the maximum wait for the vault's background work.
const workTime = time.Minute

// awaitPage requests a page until done returns true. It returns an error after workTime.
func awaitPage(ctx context.Context, c *vault.Client, path string, done func(*vault.Response) bool) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a, err := c.Get(ctx, path)
		if err != nil {
			return err
		}
		if done(a) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not finished after %v", path, workTime)
		}
	}
}

// sendFile sends a form with one file, and returns the target of the redirect.
func (f *fixture) sendFile(ctx context.Context, c *vault.Client, target, field, name string, content []byte) (string, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile(field, name)
	if err != nil {
		return "", fmt.Errorf("writing a form: %w", err)
	}
	if _, err := part.Write(content); err != nil {
		return "", fmt.Errorf("writing a form: %w", err)
	}
	if err := form.Close(); err != nil {
		return "", fmt.Errorf("writing a form: %w", err)
	}
	req, err := c.Request(ctx, http.MethodPost, target, &b)
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	a, err := c.Send(req)
	if err != nil || a.Status != http.StatusSeeOther {
		return "", fmt.Errorf("sending %s: %+v: %w", strings.TrimSpace(name), a, err)
	}
	return a.Header.Get("Location"), nil
}
