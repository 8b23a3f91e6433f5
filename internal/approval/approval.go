// Package approval provides the operations of signatories. It lists the certificates that wait for a
// signatory, chooses the certificates that a signatory looks at, approves and declines certificates, and
// sends mail to signatories. Package template stores the signatories, and package cert stores the
// approvals.
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/batch"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/locale"
	"github.com/certvault/certvault/internal/mail"
	"github.com/certvault/certvault/internal/template"
)

// Config has the dependencies of a Service.
type Config struct {
	DB        *db.DB
	Certs     *cert.Service
	Batches   *batch.Service
	Templates *template.Service
	// Send queues a message.
	Send      func(ctx context.Context, tx *db.Tx, m mail.Message) (string, error)
	Languages *locale.Catalog
	// To returns the URL of a path of the vault.
	To  func(path string) string
	Now func() time.Time
	Log *slog.Logger
}

// Service provides the operations of signatories.
type Service struct {
	Config
}

// New returns a service.
func New(c Config) *Service { return &Service{c} }

// errNothing is the error if none of the certificates wait for the signatory.
var errNothing = fault.New(fault.Conflict, "None of these certificates is waiting for your approval anymore. Reload the list to see the current state.")

// Group is a set of certificates that wait for a signatory: the certificates of a batch, or all single
// certificates. A single certificate is in no batch.
type Group struct {
	cert.Waiting

	// Name is the name of the batch, or "" for single certificates.
	Name string
	// Template is the template of the batch, or nil.
	Template *batch.TemplateName
}

// Groups returns the groups of certificates that wait for a member, sorted by Since.
func (s *Service) Groups(ctx context.Context, institutionID, userID int64) ([]Group, error) {
	waiting, err := s.Certs.WaitingFor(ctx, institutionID, userID)
	if err != nil {
		return nil, err
	}
	var uuids []string
	for _, w := range waiting {
		if w.BatchID != "" {
			uuids = append(uuids, w.BatchID)
		}
	}
	batches := map[string]*batch.Batch{}
	for some := range slices.Chunk(uuids, batchesAtOnce) {
		list, err := s.Batches.ByUUIDs(ctx, institutionID, some)
		if err != nil {
			return nil, err
		}
		for _, b := range list {
			batches[b.UUID] = b
		}
	}
	groups := make([]Group, len(waiting))
	for i, w := range waiting {
		groups[i].Waiting = w
		if b := batches[w.BatchID]; b != nil {
			groups[i].Name, groups[i].Template = b.Name, b.Template
		}
	}
	return groups, nil
}

// batchesAtOnce is the number of batches that Groups reads at once.
const batchesAtOnce = 100

// Review is a group with its certificates.
type Review struct {
	Group

	// Certificates are all certificates of the group, in the order of their creation. Digest identifies
	// this set of certificates; see Choice.Seen.
	Certificates []*cert.Certificate
	Digest       string
	// Shown are the certificates that the signatory looks at: up to three at random, those with the longest
	// and the shortest name, and each certificate with a notice.
	Shown []Shown
}

// Reason is the reason to show a certificate.
type Reason string

const (
	// ReasonRandom is a certificate that was chosen at random.
	ReasonRandom Reason = "random"
	// ReasonLongest is the certificate with the longest name.
	ReasonLongest Reason = "longest"
	// ReasonShortest is the certificate with the shortest name.
	ReasonShortest Reason = "shortest"
	// ReasonNotice is a certificate with a notice.
	ReasonNotice Reason = "notice"
)

// Shown is a certificate of a group with the reasons to show it.
type Shown struct {
	*cert.Certificate

	Reasons []Reason
}

// random is the maximum number of certificates that are shown at random.
const random = 3

// Review returns the certificates of a batch that wait for a member. If batchID is "", it returns the
// single certificates that wait. The error is fault.NotFound if there are none.
func (s *Service) Review(ctx context.Context, institutionID, userID int64, batchID string) (*Review, error) {
	groups, err := s.Groups(ctx, institutionID, userID)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(groups, func(g Group) bool { return g.BatchID == batchID })
	if at < 0 {
		return nil, fault.New(fault.NotFound, "None of these certificates is waiting for your approval.")
	}
	ids, err := s.Certs.WaitingIDs(ctx, institutionID, userID, batchID)
	if err != nil {
		return nil, err
	}
	r := &Review{Group: groups[at]}
	for some := range slices.Chunk(ids, idsAtOnce) {
		list, err := s.Certs.ByIDs(ctx, some)
		if err != nil {
			return nil, err
		}
		r.Certificates = append(r.Certificates, list...)
	}
	r.Digest, r.Shown = cert.SetDigest(uuidsOf(r.Certificates)), choose(r.Certificates)
	return r, nil
}

// idsAtOnce is the number of certificates that Review reads at once.
const idsAtOnce = 500

// choose returns the certificates of a list that are shown, each once; see Review.Shown.
func choose(list []*cert.Certificate) (out []Shown) {
	if len(list) == 0 {
		return nil
	}
	add := func(c *cert.Certificate, why Reason) {
		if at := slices.IndexFunc(out, func(s Shown) bool { return s.Certificate == c }); at >= 0 {
			out[at].Reasons = append(out[at].Reasons, why)
			return
		}
		out = append(out, Shown{c, []Reason{why}})
	}
	for _, i := range rand.Perm(len(list))[:min(random, len(list))] { //nolint:gosec // the choice is no secret
		add(list[i], ReasonRandom)
	}
	byName := func(a, b *cert.Certificate) int {
		return cmp.Compare(utf8.RuneCountInString(a.FullName), utf8.RuneCountInString(b.FullName))
	}
	if len(list) > 1 {
		add(slices.MaxFunc(list, byName), ReasonLongest)
		add(slices.MinFunc(list, byName), ReasonShortest)
	}
	for _, c := range list {
		if len(c.Notices) > 0 {
			add(c, ReasonNotice)
		}
	}
	return out
}

// Choice is the set of certificates that a signatory chose. These are the certificates in UUIDs, all
// certificates of a batch, or all single certificates if Single is true.
type Choice struct {
	UUIDs   []string
	BatchID string
	Single  bool
	// Seen is the Digest of the Review that the signatory saw, or "" if it is not known. If it is known and
	// the certificates have changed, no certificate is approved or declined.
	Seen string
}

// errChanged is the error if the chosen certificates are not those of Choice.Seen.
var errChanged = fault.New(fault.Conflict, "The certificates that are waiting for your approval have changed in the meantime. Check them again.")

// resolve sets the UUIDs if the choice is all single certificates, and checks the number of UUIDs.
func (s *Service) resolve(ctx context.Context, institutionID, userID int64, c Choice) (Choice, error) {
	if c.Single {
		review, err := s.Review(ctx, institutionID, userID, "")
		if fault.Is(err, fault.NotFound) {
			return c, errNothing
		}
		if err != nil {
			return c, err
		}
		c.UUIDs = uuidsOf(review.Certificates)
	}
	if len(c.UUIDs) > MaxChoice {
		return c, fault.OfField("certificate", fmt.Sprintf("Choose at most %d certificates.", MaxChoice))
	}
	return c, nil
}

func uuidsOf(list []*cert.Certificate) []string {
	uuids := make([]string, len(list))
	for i, c := range list {
		uuids[i] = c.UUID
	}
	return uuids
}

// MaxChoice is the maximum number of certificates of a choice.
const MaxChoice = template.MaxEntries

// Approve approves the chosen certificates that wait for a member, and returns their number. The error is
// fault.Conflict if none of them wait for the member or they are not those of Seen, fault.Forbidden
// if the member may not approve, and fault.Invalid if there are more than MaxChoice UUIDs.
func (s *Service) Approve(ctx context.Context, institutionID, userID int64, c Choice) (n int, err error) {
	if c, err = s.resolve(ctx, institutionID, userID, c); err != nil {
		return 0, err
	}
	err = s.DB.Tx(ctx, func(tx *db.Tx) error {
		name, err := signerTx(ctx, tx, institutionID, userID)
		if err != nil {
			return err
		}
		picture, err := template.SignatureDigest(ctx, tx, institutionID, userID)
		if err != nil {
			return err
		}
		n, err = s.Certs.ApproveTx(ctx, tx, cert.Approval{
			InstitutionID: institutionID, UserID: userID, Name: name, Picture: picture, BatchID: c.BatchID, UUIDs: c.UUIDs, Seen: c.Seen,
		})
		switch {
		case errors.Is(err, cert.ErrNotSeen):
			return errChanged
		case err != nil:
			return err
		case n == 0:
			return errNothing
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("approving certificates: %w", err)
	}
	return n, nil
}

// signerTx returns the name of a member, or fault.Forbidden if the member may not approve.
func signerTx(ctx context.Context, tx *db.Tx, institutionID, userID int64) (string, error) {
	names, err := account.PersonNames(ctx, tx, institutionID, []int64{userID})
	if err != nil {
		return "", err
	}
	person := names[userID]
	if !person.Role.Can(account.MaySign) {
		return "", fault.New(fault.Forbidden, "Your role does not allow you to approve or decline certificates.")
	}
	return person.Name, nil
}

// declinedAtOnce is the maximum number of certificates that one transaction declines.
const declinedAtOnce = 50

// Decline declines the chosen certificates that wait for a member, and returns their number. Each of them
// fails with the reason. The errors are those of Approve, and fault.Invalid with cert.Problems for a reason
// that is not valid. If the error is not nil, n certificates have been declined.
func (s *Service) Decline(ctx context.Context, institutionID, userID int64, c Choice, reason string) (n int, err error) {
	r := cert.Refusal{InstitutionID: institutionID, UserID: userID, Reason: reason}
	var bad cert.Problems
	if r.Check(&bad); bad.Err() != nil {
		return 0, bad.Err()
	}
	if c.BatchID != "" {
		review, err := s.Review(ctx, institutionID, userID, c.BatchID)
		if fault.Is(err, fault.NotFound) {
			return 0, errNothing
		}
		if err != nil {
			return 0, err
		}
		c.UUIDs = uuidsOf(review.Certificates)
	}
	if c, err = s.resolve(ctx, institutionID, userID, c); err != nil {
		return 0, err
	}
	if c.Seen != "" && c.Seen != cert.SetDigest(c.UUIDs) {
		return 0, errChanged
	}
	for some := range slices.Chunk(c.UUIDs, declinedAtOnce) {
		declined := 0
		err := s.DB.Tx(ctx, func(tx *db.Tx) (err error) {
			declined, err = s.declineTx(ctx, tx, r, some)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("declining certificates: %w", err)
		}
		n += declined
	}
	if n == 0 {
		return 0, errNothing
	}
	return n, nil
}

func (s *Service) declineTx(ctx context.Context, tx *db.Tx, r cert.Refusal, uuids []string) (n int, err error) {
	if r.Name, err = signerTx(ctx, tx, r.InstitutionID, r.UserID); err != nil {
		return 0, err
	}
	for _, uuid := range uuids {
		_, err := s.Certs.DeclineTx(ctx, tx, uuid, r)
		if errors.Is(err, cert.ErrInvalidState) {
			continue // the certificate does not wait for the member
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
