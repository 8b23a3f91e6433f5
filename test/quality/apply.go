package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/certvault/certvault/test/vault"
)

// applying is the data with which the checks apply for a certificate in a browser.
type applying struct {
	// Offers is the URL of the list of offers. Name is the name of the offer to apply for.
	Offers string `json:"offers"`
	Name   string `json:"name"`
	// API is the URL of the applications in the API. Token has the permission to review applications.
	API   string `json:"api"`
	Token string `json:"token"`
	// Outbox is the folder with the mails of the vault.
	Outbox string `json:"outbox"`
	// Session is the session of a person without applications.
	Session string `json:"session"`
}

const applicationsPath = "/business/certificate-applications"

// offerFields are the fields of the offers attendance and workshop: one field of each type.
const offerFields = `[
	{"key": "number", "label": "Student number", "type": "text", "help": "The number on your student card", "required": true},
	{"key": "course", "label": "Course", "type": "choice", "choices": ["Interdisciplinary Environmental Sciences", "Law", "Physics"], "required": true},
	{"key": "born", "label": "Date of birth", "type": "date", "required": true},
	{"key": "points", "label": "Points", "type": "number", "required": false},
	{"key": "about", "label": "Why do you apply?", "type": "area", "required": false},
	{"key": "proof", "label": "Proof of attendance", "type": "file", "help": "Every page, signed by your teacher", "required": true},
	{"key": "agree", "label": "My answers are correct and complete.", "type": "check", "required": true}
]`

// applicants starts a vault with offers and applications in several states, and adds the pages for
// people who apply.
func (f *fixture) applicants(ctx context.Context) error {
	v, err := f.start(ctx, "apply")
	if err != nil {
		return err
	}
	inst, err := v.CreateInstitution(ctx, "Lakeside College", "LSC")
	if err != nil {
		return err
	}
	empty, err := v.CreateInstitution(ctx, "Quiet Academy", "QUA")
	if err != nil {
		return err
	}
	token, err := v.CreateToken(ctx, inst.Slug, "", "certificate-application:list", "certificate-application:view", "certificate-application:review")
	if err != nil {
		return err
	}
	offers := v.URL + "/apply/" + inst.Slug
	f.Apply = applying{Offers: offers, Name: "Certificate of attendance", API: v.URL + applicationsPath, Token: token, Outbox: filepath.Join(v.Data, "outbox")}
	if err := f.createOffers(ctx, v, inst.Slug); err != nil {
		return err
	}
	p := f.add("public-offers", offers, http.StatusOK)
	p.Scored, p.Indexed = true, true
	p = f.add("public-offer", offers+"/attendance", http.StatusOK)
	p.Scored, p.Indexed = true, true
	f.add("offers-none", v.URL+"/apply/"+empty.Slug, http.StatusOK).Indexed = true
	f.add("offer-closed", offers+"/closed", http.StatusNotFound)
	f.add("apply-start", v.URL+"/account/apply/"+inst.Slug+"/attendance", http.StatusOK).Scored = true
	return f.applicant(ctx, v, inst.Slug, token)
}

// createOffers creates the offers of an institution, and closes one of them.
func (f *fixture) createOffers(ctx context.Context, v *vault.Vault, slug string) error {
	fields := filepath.Join(f.dir, "fields.json")
	if err := os.WriteFile(fields, []byte(offerFields), 0o600); err != nil {
		return fmt.Errorf("writing the fields of an offer: %w", err)
	}
	offer := func(args ...string) error {
		res, err := vault.Run(ctx, v.Options, "", append([]string{"offer"}, args...)...)
		if err != nil || res.Code != 0 {
			return fmt.Errorf("offer %s: %s%s: %w", args[0], res.Stdout, res.Stderr, err)
		}
		return nil
	}
	description := "Our courses are open to everyone.\nThis certificate states which course you attended, and when."
	for _, o := range [][]string{
		{"--slug", "attendance", "--name", "Certificate of attendance", "--fields", fields}, {"--slug", "closed", "--name", "Old certificate"},
		{"--slug", "workshop", "--name", "Workshop", "--fields", fields},
		{"--slug", "translation", "--name", "Certified translation of a diploma in Interdisciplinary Environmental Sciences"},
		{"--slug", "arabic", "--name", "شهادة تقدير"}, {"--slug", "transcript", "--name", "Transcript of records"}, {"--slug", "second", "--name", "Second copy"},
	} {
		err := offer(append([]string{
			"create", "--institution", slug, "--description", description, "--criteria", "You attended at least 80 % of the course.", "--max-files", "5", "--open",
		}, o...)...)
		if err != nil {
			return err
		}
	}
	return offer("close", "closed", "--institution", slug)
}

// applicant adds the pages of a person with applications, and the list of a person without applications. It
// also sets Apply.Session.
func (f *fixture) applicant(ctx context.Context, v *vault.Vault, slug, token string) error {
	c, err := signUp(ctx, v, "applicant@example.org", "Amina Okafor")
	if err != nil {
		return err
	}
	show := func(name, path string, status int) *page { return f.show(name, v.URL+path, status, c.Session) }
	fresh, err := signUp(ctx, v, "fresh@example.org", "Chen Wei")
	if err != nil {
		return err
	}
	f.show("my-applications-none", v.URL+"/account/applications", http.StatusOK, fresh.Session)
	actor, err := signUp(ctx, v, "actor@example.org", "Noor Haddad")
	if err != nil {
		return err
	}
	f.Apply.Session = actor.Session
	base := "/account/apply/" + slug
	sent := map[string]string{}
	for _, offer := range []string{"translation", "arabic", "transcript"} {
		if sent[offer], err = sendApplication(ctx, c, base+"/"+offer); err != nil {
			return err
		}
	}
	reviewer, err := v.Client(token)
	if err != nil {
		return err
	}
	step := func(offer, step, body string) error {
		a, err := reviewer.PostJSON(ctx, applicationsPath+"/"+strings.TrimPrefix(sent[offer], "/account/applications/")+"/"+step, body)
		if err == nil && a.Status != http.StatusOK {
			err = fmt.Errorf("the step %s of an application: status %d: %s", step, a.Status, a.Body)
		}
		return err
	}
	if err := errors.Join(
		step("arabic", "claim", `{}`), step("arabic", "hold", `{"kind": "identity", "text": "Please send a copy of your passport.\nYou may cover its number."}`),
		step("transcript", "reject", `{"reason": "There is no record of your attendance in 2025."}`),
	); err != nil {
		return err
	}
	if err := saveDraft(ctx, c, base+"/attendance"); err != nil {
		return err
	}
	show("apply-form", base+"/attendance", http.StatusOK)
	show("apply-problems", base+"/workshop", http.StatusUnprocessableEntity).Form = url.Values{"full_name": {""}, "field_points": {"many"}, "step": {"review"}}
	if a, err := c.PostForm(ctx, base+"/second", url.Values{"full_name": {"Amina Okafor"}}); err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("saving a draft: %+v: %w", a, err)
	}
	show("apply-review", base+"/attendance/review", http.StatusOK)
	show("apply-review-changed", base+"/attendance/send", http.StatusConflict).Form = url.Values{"draft": {"old"}}
	show("apply-changed", base+"/attendance", http.StatusConflict).Form = url.Values{"draft": {"old"}, "full_name": {"Amina"}}
	show("apply-closed", base+"/closed", http.StatusNotFound)
	show("my-applications", "/account/applications", http.StatusOK)
	show("my-application", sent["translation"], http.StatusOK)
	show("application-sent", sent["translation"]+"/sent", http.StatusOK)
	show("application-withdraw", sent["translation"]+"/withdraw", http.StatusOK)
	show("application-held", sent["arabic"], http.StatusOK)
	show("application-asked", sent["arabic"]+"/answer", http.StatusConflict).Form = url.Values{"hold": {"1"}, "answer": {"My passport"}}
	show("my-application-rejected", sent["transcript"], http.StatusOK)
	return nil
}

// signUp creates an account with a mailed link, and returns a client that is signed in to the account.
func signUp(ctx context.Context, v *vault.Vault, email, name string) (*vault.Client, error) {
	c, err := v.Client("")
	if err != nil {
		return nil, err
	}
	link, err := requestLink(ctx, v, c, "/sign-up", email)
	if err != nil {
		return nil, err
	}
	a, err := c.PostForm(ctx, strings.TrimPrefix(link, v.URL), url.Values{"name": {name}})
	if err != nil {
		return nil, err
	}
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		if cookie.Name == vault.SessionCookie {
			c.Session = cookie.Value
		}
	}
	if c.Session == "" {
		return nil, fmt.Errorf("signing up: status %d: %s", a.Status, a.Body)
	}
	return c, nil
}

var reviewedDraft = regexp.MustCompile(`name="draft" value="([0-9a-f]+)"`)

// sendApplication applies for an offer without fields, and returns the path of the application.
func sendApplication(ctx context.Context, c *vault.Client, path string) (string, error) {
	a, err := c.PostForm(ctx, path, url.Values{"full_name": {"Amina Okafor"}, "step": {"review"}})
	if err == nil {
		a, err = c.Get(ctx, path+"/review")
	}
	if err == nil {
		draft := reviewedDraft.FindSubmatch(a.Body)
		if draft == nil {
			return "", fmt.Errorf("reviewing an application: status %d: %s", a.Status, a.Body)
		}
		a, err = c.PostForm(ctx, path+"/send", url.Values{"draft": {string(draft[1])}})
	}
	if err != nil {
		return "", err
	}
	application, ok := strings.CutSuffix(a.Header.Get("Location"), "/sent")
	if !ok {
		return "", fmt.Errorf("sending an application: status %d: %s", a.Status, a.Body)
	}
	return application, nil
}

// saveDraft saves a draft of an application in which all required fields have values.
func saveDraft(ctx context.Context, c *vault.Client, path string) error {
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	var errs []error
	for _, field := range [][2]string{
		{"full_name", "Amina Okafor"}, {"field_number", "N 4711"}, {"field_course", "Law"}, {"field_born", "2001-02-03"},
		{"field_about", "I need it for a scholarship.\nThank you."}, {"field_agree", "yes"},
	} {
		errs = append(errs, form.WriteField(field[0], field[1]))
	}
	part, err := form.CreateFormFile("field_proof", "proof of attendance, signed by the teacher.pdf")
	if err == nil {
		_, err = part.Write(vault.Sample{Institution: "Lakeside College", Title: "Attendance", Name: "Amina Okafor", Date: "30 June 2026"}.PDF())
	}
	if err := errors.Join(append(errs, err, form.Close())...); err != nil {
		return fmt.Errorf("writing a form: %w", err)
	}
	req, err := c.Request(ctx, http.MethodPost, path, &b)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	a, err := c.Send(req)
	if err != nil || a.Status != http.StatusSeeOther {
		return fmt.Errorf("saving a draft: %+v: %w", a, err)
	}
	return nil
}
