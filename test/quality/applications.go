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

// queued is the number of applications for the second offer. checkApplications in applications.mjs decides
// some of them.
const queued = 6

// applications adds the pages of the panel about offers and applications. template is the UUID of a
// published template, from which the certificates of one offer are made.
func (f *fixture) applications(ctx context.Context, v *vault.Vault, slug, session, template string) error {
	panel, err := v.Client("")
	if err != nil {
		return err
	}
	panel.Session = session
	token, err := v.CreateToken(ctx, slug, "", "certificate-application:create", "certificate-application:view")
	if err != nil {
		return err
	}
	api, err := v.Client(token)
	if err != nil {
		return err
	}
	path := "/panel/" + slug
	file, err := offer(ctx, panel, path, "Transcript of records", "", true)
	if err != nil {
		return err
	}
	made, err := offer(ctx, panel, path, "Bachelor of Arts", template, true)
	if err != nil {
		return err
	}
	draft, err := offer(ctx, panel, path, "Summer school", "", false)
	if err != nil {
		return err
	}
	if err := register(ctx, panel, file); err != nil {
		return err
	}
	var ids []string
	for i, name := range []string{"Amina Okafor", "Zoë García-Márquez", "ليلى حسن", "Wolfeschlegelsteinhausenbergerdorff Hubert Blaine"} {
		id, err := f.apply(ctx, api, "transcript-of-records", name, fmt.Sprintf("applicant%d@example.org", i), fmt.Sprintf("M-%d", 1001+i))
		if err != nil {
			return err
		}
		ids = append(ids, path+"/applications/"+id)
	}
	for i := range queued {
		id, err := f.apply(ctx, api, "bachelor-of-arts", fmt.Sprintf("Student %c", 'A'+i), fmt.Sprintf("student%d@example.org", i), "M-1")
		if err != nil {
			return err
		}
		ids = append(ids, path+"/applications/"+id)
	}
	for _, step := range []struct {
		path string
		form url.Values
	}{
		{ids[1] + "/hold", url.Values{"hold": {"identity"}, "text": {"Please send a copy of your identity card.\nBoth sides."}}},
		{ids[2] + "/reject", url.Values{"reason": {"You did not complete the course."}, "note": {"Absent since May."}}},
		{ids[3] + "/claim", url.Values{}},
	} {
		if a, err := panel.PostForm(ctx, step.path, step.form); err != nil || a.Status != http.StatusSeeOther {
			return fmt.Errorf("deciding an application: %+v: %w", a, err)
		}
	}
	for name, page := range map[string]string{
		"offers": path + "/offers", "offer-new": path + "/offers/new", "offer": file, "offer-draft": draft, "offer-template": made, "offer-delete": draft + "/delete",
		"applications": path + "/applications", "applications-ended": path + "/applications?tab=ended", "applications-none": path + "/applications?q=nobody+at+all",
		"application": ids[0] + "?tab=new", "application-hold": ids[1], "application-rejected": ids[2], "application-long": ids[3], "application-template": ids[4],
		"application-reject": ids[0] + "?open=reject",
	} {
		f.show(name, v.URL+page, http.StatusOK, session)
	}
	decide := path + "/applications/decide"
	for name, form := range map[string]url.Values{
		"applications-approve": {"decision": {"approve"}, "selected": {lastPart(ids[4]) + ".1", lastPart(ids[5]) + ".1"}},
		"applications-reject":  {"decision": {"reject"}, "selected": {lastPart(ids[0]) + ".1", lastPart(ids[4]) + ".1"}},
	} {
		f.show(name, v.URL+decide, http.StatusOK, session).Form = form
	}
	a, err := panel.PostForm(ctx, decide, url.Values{
		"decision": {"hold"}, "selected": {lastPart(ids[2]) + ".1", lastPart(ids[6]) + ".1"}, "text": {"Which course?"}, "sure": {"1"},
	})
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("starting a task: %+v: %w", a, err)
	}
	task := a.Header.Get("Location")
	if err := awaitPage(ctx, panel, task, func(a *vault.Response) bool { return bytes.Contains(a.Body, []byte("1 application was put on hold.")) }); err != nil {
		return err
	}
	f.show("applications-results", v.URL+task, http.StatusOK, session)
	f.show("offer-problems", v.URL+path+"/offers", http.StatusUnprocessableEntity, session).Form = url.Values{
		"name": {""}, "slug": {"Not a slug"}, "hold_days": {"0"}, "retention_days": {"90"}, "max_files": {"3"}, "questions": {"1"},
		"fields.0.label": {""}, "fields.0.type": {"choice"},
	}
	f.show("application-problems", v.URL+ids[0]+"/reject", http.StatusUnprocessableEntity, session).Form = url.Values{"reason": {""}}
	return nil
}

func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// offer creates an offer in the panel, opens it if open is true, and returns its path.
func offer(ctx context.Context, c *vault.Client, panel, name, template string, open bool) (string, error) {
	form := url.Values{
		"name": {name}, "description": {"For everyone who completed the course."}, "criteria": {"Attendance of three days, proved by a list with a signature."},
		"template_id": {template}, "hold_days": {"14"}, "retention_days": {"90"}, "max_files": {"3"}, "hold_texts.payment": {"Please pay the fee of 20 euros."},
		"questions": {"3"}, "fields.0.label": {"Student number"}, "fields.0.type": {"text"}, "fields.0.required": {"1"},
		"fields.1.label": {"Course"}, "fields.1.type": {"choice"}, "fields.1.choices": {"Physics\nHistory"},
		"fields.2.label": {"Proof of attendance"}, "fields.2.type": {"file"}, "fields.2.help": {"A list with a signature."},
	}
	if template == "" {
		form.Set("register_number", "student_number")
		form.Set("fields.0.key", "student_number")
	}
	a, err := c.PostForm(ctx, panel+"/offers", form)
	if err != nil || a.Status != http.StatusSeeOther {
		return "", fmt.Errorf("creating an offer: %+v: %w", a, err)
	}
	path := a.Header.Get("Location")
	if !open {
		return path, nil
	}
	if a, err = c.PostForm(ctx, path+"/status", url.Values{"status": {"open"}}); err != nil || a.Status != http.StatusSeeOther {
		return "", fmt.Errorf("opening an offer: %+v: %w", a, err)
	}
	return path, nil
}

// register uploads the register of an offer.
func register(ctx context.Context, c *vault.Client, offer string) error {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("list", "students.csv")
	if err == nil {
		_, err = part.Write([]byte("Number,Name,Date of birth\nM-1001,Amina Okafor,1999-06-30\nM-1002,Zoe Garcia,\n"))
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return fmt.Errorf("writing a form: %w", err)
	}
	return send(ctx, c, offer+"/register", form.FormDataContentType(), &b, http.StatusSeeOther, nil)
}

// apply submits an application with an attachment, and returns the UUID of the application.
func (f *fixture) apply(ctx context.Context, c *vault.Client, offer, name, email, number string) (string, error) {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for _, field := range [][2]string{{"offer", offer}, {"full_name", name}, {"applicant_email", email}, {"fields[student_number]", number}, {"fields[course]", "Physics"}} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			return "", fmt.Errorf("writing a form: %w", err)
		}
	}
	part, err := form.CreateFormFile("files[proof_of_attendance]", "attendance of 2026.pdf")
	if err == nil {
		_, err = part.Write(f.sample)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		return "", fmt.Errorf("writing a form: %w", err)
	}
	var made struct {
		Data struct {
			UUID string `json:"uuid"`
		} `json:"data"`
	}
	err = send(ctx, c, "/business/certificate-applications", form.FormDataContentType(), &b, http.StatusCreated, &made)
	return made.Data.UUID, err
}

// send sends a form and checks the status of the response. If into is not nil, send decodes the response
// into it.
func send(ctx context.Context, c *vault.Client, path, contentType string, b *bytes.Buffer, status int, into any) error {
	req, err := c.Request(ctx, http.MethodPost, path, b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	a, err := c.Send(req)
	if err != nil || a.Status != status {
		return fmt.Errorf("%s: %+v: %w", path, a, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("decoding a response: %w", err)
	}
	return nil
}
