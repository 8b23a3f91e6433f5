package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/certvault/certvault/client"
)

type uploadCommand struct {
	remote

	File      string `arg:"" help:"The certificate: PDF, JPG, JPEG or PNG, up to 20 MB." type:"path"`
	Title     string `help:"Title of the certificate." placeholder:"TITLE" required:""`
	Name      string `help:"The recipient's name, as it appears in the file." placeholder:"NAME" required:""`
	Email     string `help:"The recipient's e-mail address." placeholder:"ADDRESS" required:""`
	IssueDate string `help:"Issue date. Default: today, UTC." placeholder:"YYYY-MM-DD"`
	Details   string `help:"Details that the recipient sees, but the public does not." placeholder:"TEXT"`
	ExpiresOn string `help:"Last day on which the certificate is valid, UTC. Default: it does not expire." placeholder:"YYYY-MM-DD"`
	Notify    string `help:"Mail to the recipient: now, never, or a time such as 2026-07-01T09:00:00+02:00, at most a year ahead. Default: now." placeholder:"TIME"`
	Wait      bool   `help:"Wait until the verified PDF exists. The exit code is 1 if processing fails."`
}

// noticeTime is the maximum time that an upload without --wait waits for notices about the file.
const noticeTime = 5 * time.Second

// Run uploads one certificate through the API. It prints the reference id and the status of the certificate,
// and the address of its public page. With --wait, Run first waits until the certificate is processed.
func (u *uploadCommand) Run(c *console) error {
	progress := newBar(c.stderr)
	vault, err := u.connect(c.stderr, progress.end)
	if err != nil {
		return err
	}
	file, err := client.OpenFile(u.File)
	if err != nil {
		return &usageError{err}
	}
	created, err := vault.Upload(c.ctx, client.NewCertificate{
		CertificateTitle: u.Title, FullName: u.Name, ApplicantEmail: u.Email, IssueDate: u.IssueDate, Details: u.Details, ExpiresOn: u.ExpiresOn, File: file,
	}, client.Progress(func(sent, total int64) { progress.set(sent, total, "sent") }), client.Notify(u.Notify))
	progress.end()
	if err == nil && u.Wait {
		progress.text("Waiting for the verified PDF")
		created, err = vault.Await(c.ctx, created.UUID)
		progress.end()
	}
	if err != nil {
		return u.uploadError(err)
	}
	if err := c.print(created, func(w io.Writer) {
		printf(w, "%s %s\n%s\n", created.ReferenceID, created.Status.Value, created.VerificationURL)
	}); err != nil {
		return err
	}
	u.warn(c, vault, created)
	switch {
	case created.Failure != nil:
		return errors.New(created.Failure.Message)
	case u.Wait && created.Status.Value != client.Approved:
		return fmt.Errorf("the status of the certificate is %s", created.Status.Value)
	}
	return nil
}

// warn prints a warning if the file does not contain the recipient's name. The vault searches for the
// name while it processes the certificate, so warn waits for up to noticeTime. If the token may not view
// certificates, warn prints nothing.
func (u *uploadCommand) warn(c *console, vault *client.Client, created *client.VaultCertificate) {
	if created.Status.Value == client.Processing {
		ctx, cancel := context.WithTimeout(c.ctx, noticeTime)
		defer cancel()
		u.retries.stop()
		processed, err := vault.Await(ctx, created.UUID)
		if err != nil {
			return
		}
		created = processed
	}
	if slices.ContainsFunc(created.Notices, func(n client.Notice) bool { return n.Code == client.NameNotInFile }) {
		printf(c.stderr, "warning: %s does not appear in this file\n", u.Name)
	}
}

// uploadFlags are the fields of the API and their flags, in the order of the command's help.
var uploadFlags = []struct{ field, flag string }{
	{"certificate_file", "FILE"}, {"certificate_title", "--title"}, {"full_name", "--name"}, {"applicant_email", "--email"}, {"issue_date", "--issue-date"},
	{"details", "--details"}, {"expires_on", "--expires-on"}, {"notify", "--notify"},
}

// uploadError converts an error of an upload to an error that names the flags of the command instead of
// the fields of the API.
func (u *uploadCommand) uploadError(err error) error {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || len(e.Fields) == 0 || e.Existing() != "" {
		return u.userError(err)
	}
	var list []string
	for _, f := range uploadFlags {
		if messages := e.Fields[f.field]; len(messages) > 0 {
			text := f.flag + ": " + strings.Join(messages, " ")
			list = append(list, strings.Replace(text, ": The "+strings.ReplaceAll(f.field, "_", " ")+" field ", " ", 1))
		}
	}
	if len(list) < len(e.Fields) { // the error has a field without a flag
		return u.userError(err)
	}
	return errors.New(strings.Join(list, "\n"))
}
