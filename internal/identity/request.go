package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/riverqueue/river"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/mail"
)

// requestAttempts is the maximum number of attempts of a job that sends a link.
const requestAttempts = 8

// RequestLink queues a job that mails a link to an address. A worker checks later whether the address
// has an account, so that the response and its duration are the same for all addresses. next is the page
// that opens after the link is used. It may be empty.
//
// Earlier requests for the same address never cause a refusal, because other people can make them. The
// worker sends no mail while the last mail is recent and its link is valid. Requests to sign up are
// limited for each network, because their mail may go to any address.
func (s *Service) RequestLink(ctx context.Context, purpose Purpose, address, language, next string, from Origin) error {
	email, err := account.ParseEmail(address)
	if err != nil {
		return fault.OfField("email", err.Error())
	}
	if purpose == ToSignUp {
		if _, err := s.try(ctx, trySignUp, email.Folded, from); err != nil {
			return err
		}
	}
	args := requestArgs{Purpose: purpose, Email: email.Text, Language: s.language(language), Next: next}
	return s.DB.Tx(ctx, func(tx *db.Tx) error {
		_, err := s.Queue.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: mail.QueueName, MaxAttempts: requestAttempts})
		return err
	})
}

// requestArgs has the arguments of a job that sends a link.
type requestArgs struct {
	Purpose  Purpose `json:"purpose"`
	Email    string  `json:"email"`
	Language string  `json:"language"`
	Next     string  `json:"next"`
}

// Kind returns the name of the job.
func (requestArgs) Kind() string { return "identity_link" }

type worker struct {
	river.WorkerDefaults[requestArgs]

	service *Service
}

// Work sends the mail with the link. If the address has no account, Work sends a mail with a link only
// for a sign-up. If the address is a further address, Work sends a notice that the address cannot be
// used to sign in. Work sends no mail if the last mail is recent and its link is valid. Therefore a job
// that runs again, because the process stopped after the commit, sends no second mail.
func (w *worker) Work(ctx context.Context, j *river.Job[requestArgs]) error {
	return w.service.sendLink(ctx, j.Args)
}

func (s *Service) sendLink(ctx context.Context, a requestArgs) error {
	email, err := account.ParseEmail(a.Email)
	if err != nil {
		return river.JobCancel(err)
	}
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		p, err := s.ByEmail(ctx, tx, email.Folded)
		unknown := errors.Is(err, ErrNoPerson)
		if err != nil && !unknown {
			return err
		}
		if unknown {
			if further, err := s.writeFurtherTx(ctx, tx, a.Purpose, email.Folded, a.Language); further || err != nil {
				return err
			}
		}
		if p.Language == "" {
			p.Language = a.Language
		}
		proof := Proof{Purpose: a.Purpose, userID: p.ID, Email: p.Email, EmailFolded: p.EmailFolded, Data: a.Next}
		letter := "letter_" + string(a.Purpose)
		switch {
		case a.Purpose == ToSignUp && unknown:
			proof.Email, proof.EmailFolded = email.Text, email.Folded
		case a.Purpose == ToSignUp:
			letter, proof.Purpose = "letter_known", ToSignIn
		case unknown:
			return nil
		}
		if err := s.countMailTx(ctx, tx, a.Purpose, email.Folded, lifetimes[proof.Purpose]); err != nil {
			return err
		}
		secret, err := s.newProofTx(ctx, tx, proof)
		if err != nil {
			return err
		}
		path, ok := paths[proof.Purpose]
		if !ok {
			return fmt.Errorf("there is no page for links with the purpose %s", proof.Purpose)
		}
		// The link verifies the folded form of the address, so the mail goes to this form and not to the form
		// that was entered. Mail systems may treat the two forms as different mailboxes.
		p.Email = email.Folded
		return s.writeTx(ctx, tx, p, letter, path+secret)
	})
	if errors.Is(err, errMailed) {
		return nil
	}
	return err
}
