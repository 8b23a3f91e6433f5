package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // for the driver "sqlite"

	"github.com/certvault/certvault/test/vault"
)

// linkTime is the maximum wait for the set-up link.
const linkTime = 10 * time.Second

// page is one page in one state.
type page struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Status int    `json:"status"`
	// Scored is true if Lighthouse also measures the page.
	Scored bool `json:"scored"`
	// Session is the value of the session cookie, or "" if signed out.
	Session string `json:"session,omitempty"`
	// Form is the form that is sent to the URL by POST. If Form is empty, the page is requested by GET.
	Form url.Values `json:"form,omitempty"`
	// Multipart is true if the form is sent as multipart/form-data.
	Multipart bool `json:"multipart,omitempty"`
	// Heavy is true if the page has the higher limits of bytes and requests (see scores.mjs).
	Heavy bool `json:"heavy,omitempty"`
	// Indexed is true if the page must allow search engines to index it.
	Indexed bool `json:"indexed"`
}

// fixture has three vaults: one with a certificate in every publicly visible state, one that is not set
// up, and one for people who apply.
type fixture struct {
	Pages []page `json:"pages"`
	// File is the path of a verified PDF. FilePage is the URL of the page that shows the result of
	// looking up this file. Changed is the path of a copy of the file with one byte changed.
	File     string `json:"file"`
	FilePage string `json:"file_page"`
	Changed  string `json:"changed"`
	// Credential is the path of a valid credential of the vault.
	Credential string `json:"credential"`
	// Sample is the path of a file that can be uploaded.
	Sample string `json:"sample"`
	// Reference is the reference id of the certificate in File.
	Reference string `json:"reference"`
	// Apply is the data with which the checks apply for a certificate.
	Apply applying `json:"apply"`

	dir    string
	vaults []*vault.Vault
	client *vault.Client
	// sample is the last file that make created.
	sample []byte
	// waiting and done are the paths of the bulk uploads that bulks creates.
	waiting, done string
	// both is the path of the mailed link that bundle creates.
	both string
}

func newFixture(ctx context.Context) (_ *fixture, err error) {
	f := &fixture{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	if f.dir, err = os.MkdirTemp("", "certvault-quality-"); err != nil {
		return nil, fmt.Errorf("creating a data folder: %w", err)
	}
	if err := f.setup(ctx); err != nil {
		return nil, err
	}
	if err := f.fill(ctx); err != nil {
		return nil, err
	}
	if err := f.applicants(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// start starts a vault whose data is in a folder of the fixture.
func (f *fixture) start(ctx context.Context, folder string, args ...string) (*vault.Vault, error) {
	data := filepath.Join(f.dir, folder)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("creating a data folder: %w", err)
	}
	v, err := vault.Start(ctx, vault.Options{Data: data, Args: append([]string{"--rate-limit", "0", "--public-rate-limit", "0"}, args...)})
	if err != nil {
		return nil, err
	}
	f.vaults = append(f.vaults, v)
	return v, nil
}

// close stops the vaults and removes the data of the fixture.
func (f *fixture) close() error {
	var errs []error
	for _, v := range f.vaults {
		_, err := v.Stop()
		errs = append(errs, err, v.Forget())
	}
	return errors.Join(append(errs, os.RemoveAll(f.dir))...)
}

// setup starts a vault without an owner and adds the set-up page.
func (f *fixture) setup(ctx context.Context) error {
	v, err := f.start(ctx, "new")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, link, found := strings.Cut(v.Stdout(), "hour: "); found && strings.HasSuffix(link, "\n") {
			f.add("setup", strings.TrimSpace(link), http.StatusOK)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the vault printed no set-up link: %s", v.Stdout())
		}
	}
}

func (f *fixture) add(name, address string, status int) *page {
	f.Pages = append(f.Pages, page{Name: name, URL: address, Status: status})
	return &f.Pages[len(f.Pages)-1]
}

// show adds a page with the session of a signed-in person. The page is heavy.
func (f *fixture) show(name, address string, status int, session string) *page {
	p := f.add(name, address, status)
	p.Session, p.Heavy = session, true
	return p
}

// make draws and uploads a certificate, and waits until it is approved.
func (f *fixture) make(ctx context.Context, title, name string) (*vault.Certificate, error) {
	f.sample = vault.Sample{
		Institution: "Northern & Western University", Title: title, Name: name, Line: "has completed the course of study.", Date: "30 June 2026", Emblem: 120,
	}.PDF()
	return f.upload(ctx, title, name, f.sample, true)
}

func (f *fixture) upload(ctx context.Context, title, name string, file []byte, wait bool) (*vault.Certificate, error) {
	form := vault.NewForm(title, name, "person@example.org", "diploma.pdf", file).With("issue_date", "2026-06-30")
	a, err := f.client.Upload(ctx, form)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusCreated {
		return nil, fmt.Errorf("uploading a certificate: status %d: %s", a.Status, a.Body)
	}
	made, err := a.Certificate()
	if err != nil || !wait {
		return made, err
	}
	if made, err = f.client.Await(ctx, made.UUID); err == nil && made.Status.Value != "approved" {
		err = fmt.Errorf("%s is %s: %+v", title, made.Status.Value, made.Failure)
	}
	return made, err
}

// fill creates the certificates and adds all pages except those that setup and applicants add.
func (f *fixture) fill(ctx context.Context) error {
	v, err := f.start(ctx, "data")
	if err != nil {
		return err
	}
	inst, err := v.CreateInstitution(ctx, "Northern & Western University", "NWU")
	if err != nil {
		return err
	}
	token, err := v.CreateToken(ctx, inst.Slug, "", vault.Permissions...)
	if err != nil {
		return err
	}
	if f.client, err = v.Client(token); err != nil {
		return err
	}
	made := map[string]*vault.Certificate{}
	for name, title := range map[string]string{
		"valid": "Bachelor of Science in Physics", "revoked": "Master of Arts in History", "unchecked": "Doctor of Philosophy", "damaged": "Diploma in Chemistry",
		"long": "Certificate of Completion of the Advanced Professional Training Programme in Interdisciplinary Environmental Sciences",
	} {
		if made[name], err = f.make(ctx, title, "Amina Okafor"); err != nil {
			return err
		}
	}
	if made["arabic"], err = f.upload(ctx, "شهادة تقدير في الهندسة", "ليلى حسن", f.sample, true); err != nil {
		return err
	}
	twice := vault.Sample{Institution: "Northern & Western University", Title: "Attendance", Name: "Everyone", Date: "30 June 2026"}.PDF()
	for _, name := range []string{"Chen Wei", "Dora Maar"} {
		if _, err := f.upload(ctx, "Attendance of "+name, name, twice, true); err != nil {
			return err
		}
	}
	if err := f.uploadOwned(ctx); err != nil {
		return err
	}
	// The mail must be sent before the revocation, because a revocation withdraws unsent mail.
	if _, err := awaitMail(ctx, v.Data, made["revoked"].CertificateTitle); err != nil {
		return err
	}
	a, err := f.client.PostJSON(ctx, vault.CertificatesPath+"/"+made["revoked"].UUID+"/revoke",
		`{"reason": "The thesis was withdrawn after an inquiry found that its data had been made up.\nSee the university's notice of 3 July 2026."}`)
	if err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("revoking a certificate: %+v: %w", a, err)
	}
	if err := f.replace(ctx, made); err != nil {
		return err
	}
	if made["expired"], err = f.expired(ctx); err != nil {
		return err
	}
	if err := f.saveFiles(ctx, made["valid"]); err != nil {
		return err
	}
	if err := f.bulks(ctx, v, inst.Slug); err != nil {
		return err
	}
	if err := f.bundle(ctx, v); err != nil {
		return err
	}
	if err := f.damage(ctx, filepath.Join(v.Data, "certvault.db"), made); err != nil {
		return err
	}
	// The vault is restarted with a time-stamp authority that does not respond, so that the next
	// certificate stays in processing.
	if _, err := v.Stop(); err != nil {
		return err
	}
	second, err := f.start(ctx, "data", "--tsa", "http://127.0.0.1:9/")
	if err != nil {
		return err
	}
	f.client.URL = second.URL
	if f.client, err = second.Client(token); err != nil {
		return err
	}
	if made["processing"], err = f.upload(ctx, "Waiting", "Amina Okafor", twice, false); err != nil {
		return err
	}
	if err := f.public(ctx, second, inst.Slug); err != nil {
		return err
	}
	f.list(second.URL, made, sha256.Sum256(twice))
	if err := f.credentials(ctx, second.URL, made["valid"]); err != nil {
		return err
	}
	if err := f.recipients(ctx, second.URL, second.Data, made); err != nil {
		return err
	}
	if err := f.accountPages(ctx, second); err != nil {
		return err
	}
	if err := f.people(ctx, second); err != nil {
		return err
	}
	if err := f.panelPages(ctx, second, inst.Slug, made); err != nil {
		return err
	}
	session, err := second.SignIn(ctx, "owner@nwu.example", vault.OwnerPassword)
	if err != nil {
		return err
	}
	if err := f.work(ctx, second, inst.Slug, session, made); err != nil {
		return err
	}
	if err := f.templates(ctx, second, inst.Slug, session); err != nil {
		return err
	}
	f.forms(second, inst.Slug, session, made)
	if err := f.member(ctx, second, inst.Slug, session); err != nil {
		return err
	}
	if err := f.links(ctx, second); err != nil {
		return err
	}
	f.add("mail-link-two", second.URL+f.both, http.StatusOK)
	if err := f.programs(ctx, second, inst.Slug); err != nil {
		return err
	}
	return f.prolong(ctx, filepath.Join(second.Data, "certvault.db"))
}

// prolong changes the database so that sign-ins count as recent, and mailed links are valid, for a day.
// Otherwise, pages that show secrets would redirect to a confirmation 10 minutes after the sign-in, and the
// checks may take longer.
func (f *fixture) prolong(ctx context.Context, file string) error {
	d, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	later := time.Now().AddDate(0, 0, 1).UnixMicro()
	for _, query := range []string{
		`UPDATE sessions SET confirmed_at = $1`,
		// A session that waits for its second factor ends 10 minutes after its creation.
		`UPDATE sessions SET created_at = $1, seen_at = $1 WHERE pending`,
		`UPDATE proofs SET expires_at = $1 WHERE expires_at < $1`,
	} {
		if _, err := d.ExecContext(ctx, query, later); err != nil {
			return errors.Join(fmt.Errorf("prolonging the sessions: %w", err), d.Close())
		}
	}
	return d.Close()
}

// public enables the public image and the public download of the institution's certificates, and
// sets a colour, a contact and a logo.
func (f *fixture) public(ctx context.Context, v *vault.Vault, slug string) error {
	logo, err := vault.PNG(320, 120)
	if err != nil {
		return err
	}
	file := filepath.Join(f.dir, "logo.png")
	if err := os.WriteFile(file, logo, 0o600); err != nil {
		return fmt.Errorf("writing the logo: %w", err)
	}
	res, err := vault.Run(ctx, v.Options, "", "institution", "set", "--institution", slug, "--public-image", "--public-download", "--colour", "#1a237e",
		"--contact", "registry@nwu.example", "--logo", file)
	if err != nil || res.Code != 0 {
		return fmt.Errorf("institution set: %s%s: %w", res.Stdout, res.Stderr, err)
	}
	return nil
}

// saveFiles saves a verified PDF, a copy with one byte changed, and the last file that make created.
func (f *fixture) saveFiles(ctx context.Context, c *vault.Certificate) error {
	a, err := f.client.Get(ctx, vault.CertificatesPath+"/"+c.UUID+"/download")
	if err != nil || a.Status != http.StatusOK {
		return fmt.Errorf("downloading a verified PDF: %+v: %w", a, err)
	}
	f.Reference = c.ReferenceID
	f.File, f.Changed = filepath.Join(f.dir, "verified.pdf"), filepath.Join(f.dir, "changed.pdf")
	f.Sample = filepath.Join(f.dir, "sample.pdf")
	changed := bytes.Replace(a.Body, []byte("%PDF-1."), []byte("%PDF-2."), 1)
	return errors.Join(os.WriteFile(f.File, a.Body, 0o600), os.WriteFile(f.Changed, changed, 0o600), os.WriteFile(f.Sample, f.sample, 0o600))
}

// damage changes the results of checks in the database to states that a client cannot cause: a check
// that did not run, and a check that failed.
func (f *fixture) damage(ctx context.Context, file string, made map[string]*vault.Certificate) error {
	d, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	for name, result := range map[string]string{"unchecked": "not_run", "damaged": "failed"} {
		if _, err := d.ExecContext(ctx, `
			UPDATE certificate_checks SET result = $1 WHERE name = 'file' AND certificate_id = (SELECT id FROM certificates WHERE uuid = $2)`,
			result, made[name].UUID); err != nil {
			return errors.Join(fmt.Errorf("changing a check: %w", err), d.Close())
		}
	}
	return d.Close()
}

// list adds the public pages for the verification of certificates and files, the page of an unknown
// address, and the pages that help adds.
func (f *fixture) list(base string, made map[string]*vault.Certificate, twice [sha256.Size]byte) {
	verify := func(name string) string { return base + "/verify/" + made[name].ReferenceID }
	id := made["valid"].ReferenceID
	p := f.add("lookup", base+"/verify", http.StatusOK)
	p.Scored, p.Indexed = true, true
	p = f.add("signatures", base+"/signatures", http.StatusOK)
	p.Scored, p.Indexed = true, true
	for _, name := range []string{"valid", "revoked", "unchecked", "replaced", "replacement", "expired"} {
		f.add(name, verify(name), http.StatusOK).Scored = true
	}
	for _, name := range []string{"damaged", "long", "arabic", "processing"} {
		f.add(name, verify(name), http.StatusOK)
	}
	f.add("unknown", base+"/verify/NWU-0000000000000000", http.StatusNotFound)
	f.add("unknown-character", base+"/verify/"+id[:10]+"U"+id[11:], http.StatusNotFound)
	f.add("unknown-short", base+"/verify/"+id[:18], http.StatusNotFound)
	f.add("unknown-near", base+"/verify/"+swapped(id), http.StatusNotFound)
	f.FilePage = base + "/verify/file/" + *made["valid"].VerifiedSHA256
	f.add("file-verified", f.FilePage, http.StatusOK)
	f.add("file-original", base+"/verify/file/"+made["valid"].File.SHA256, http.StatusOK)
	f.add("file-originals", base+"/verify/file/"+hex.EncodeToString(twice[:]), http.StatusOK)
	f.add("file-unknown", base+"/verify/file/"+strings.Repeat("ab", sha256.Size), http.StatusNotFound)
	f.add("file-differs", base+"/verify/file/"+strings.Repeat("ab", sha256.Size)+"?reference_id="+url.QueryEscape(id), http.StatusOK).Scored = true
	f.add("file-differs-revoked", f.FilePage+"?reference_id="+url.QueryEscape(made["revoked"].ReferenceID), http.StatusOK)
	f.add("error", base+"/no-such-page", http.StatusNotFound)
	f.help(base)
}

// help adds pages of the documentation: the start page, guides with and without translations, and searches
// with and without results.
func (f *fixture) help(base string) {
	for name, path := range map[string]string{"help": "/help", "help-guide": "/help/registrar/team"} {
		p := f.add(name, base+path, http.StatusOK)
		p.Scored, p.Indexed = true, true
	}
	for name, path := range map[string]string{"help-pictures": "/help/registrar/first-hour", "help-english": "/help/integrator/first-call"} {
		f.add(name, base+path, http.StatusOK).Indexed = true
	}
	f.add("help-search", base+"/help?q=token", http.StatusOK)
	f.add("help-none", base+"/help?q=no-such-word", http.StatusOK)
}

// swapped returns a reference id with two different, adjacent characters swapped.
func swapped(id string) string {
	b := []byte(id)
	for i := len(b) - 1; i > len(b)-15; i-- {
		if b[i] != b[i-1] {
			b[i], b[i-1] = b[i-1], b[i]
			break
		}
	}
	return string(b)
}
