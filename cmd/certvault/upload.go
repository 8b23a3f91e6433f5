package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/certvault/certvault/client"
)

type uploadCommand struct {
	remote

	File      string `arg:"" help:"The certificate: PDF, JPG, JPEG or PNG, up to 20 MB." type:"path"`
	Title     string `help:"Title of the certificate." required:""`
	Name      string `help:"The recipient's name." required:""`
	Email     string `help:"The recipient's e-mail address." required:""`
	IssueDate string `help:"Date of issue. Default: today, UTC." placeholder:"YYYY-MM-DD"`
	Details   string `help:"Details for the recipient; they are not public."`
	Wait      bool   `help:"Wait until the verified PDF exists. The exit code is 1 if processing fails."`
}

// Run uploads one certificate through the interface. With --wait, Run waits until the certificate
// is processed.
func (u *uploadCommand) Run(c *console) error {
	vault, err := u.connect()
	if err != nil {
		return err
	}
	file, err := client.OpenFile(u.File)
	if err != nil {
		return &usageError{err}
	}
	progress := newBar(c.stderr)
	created, err := vault.Upload(c.ctx, client.NewCertificate{
		CertificateTitle: u.Title, FullName: u.Name, ApplicantEmail: u.Email, IssueDate: u.IssueDate, Details: u.Details, File: file,
	}, client.Progress(func(sent, total int64) { progress.set(sent, total, "sent") }))
	progress.end()
	if err == nil && u.Wait {
		created, err = vault.Await(c.ctx, created.UUID)
	}
	if err != nil {
		return userError(err)
	}
	if err := c.print(created, func(w io.Writer) {
		printf(w, "%s %s\n%s\n", created.ReferenceID, created.Status.Value, created.VerificationURL)
	}); err != nil {
		return err
	}
	switch {
	case created.Failure != nil:
		return errors.New(created.Failure.Message)
	case u.Wait && created.Status.Value != client.Approved:
		return fmt.Errorf("the status of the certificate is %s", created.Status.Value)
	}
	return nil
}
