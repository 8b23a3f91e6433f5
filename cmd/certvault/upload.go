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
	Title     string `help:"What the certificate is for." required:""`
	Name      string `help:"The recipient's name." required:""`
	Email     string `help:"The recipient's e-mail address." required:""`
	IssueDate string `help:"Date of issue. Default: today, UTC." placeholder:"YYYY-MM-DD"`
	Details   string `help:"Shown to the recipient; the public does not see it."`
	Wait      bool   `help:"Wait until the verified PDF exists; exit code 1 if processing fails."`
}

// Run uploads one certificate through the interface.
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
	made, err := vault.Upload(c.ctx, client.NewCertificate{
		CertificateTitle: u.Title, FullName: u.Name, ApplicantEmail: u.Email, IssueDate: u.IssueDate, Details: u.Details, File: file,
	}, client.Progress(func(sent, total int64) { progress.set(sent, total, "sent") }))
	progress.end()
	if err == nil && u.Wait {
		made, err = vault.Await(c.ctx, made.UUID)
	}
	if err != nil {
		return userError(err)
	}
	if err := c.answer(made, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "%s %s\n%s\n", made.ReferenceID, made.Status.Value, made.VerificationURL)
	}); err != nil {
		return err
	}
	switch {
	case made.Failure != nil:
		return errors.New(made.Failure.Message)
	case u.Wait && made.Status.Value != client.Approved:
		return fmt.Errorf("the certificate is %s", made.Status.Value)
	}
	return nil
}
