package issuer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/audit"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
)

// The functions of this source file revoke a credential if only its file is known. They are for
// certificates that were created after the backup from which the vault was restored: the vault does not
// have these certificates, but it has the keys and the status lists of their credentials (ADR 0059).

// FileRevocation is the revocation of a credential by its file.
type FileRevocation struct {
	Entry

	Institution *account.Institution
	// Certificate is the UUID of the certificate. Title is empty if the holder withheld it.
	Certificate, Title string
	// Reason may be empty. By is the name of the actor.
	Reason, By string
	At         time.Time
	// Again reports whether the credential was revoked by its file before. Reason, By and At are then those
	// of the first revocation.
	Again bool
}

// RevokeFile revokes the credential in a file if this vault does not have its certificate. The file must
// be one that credential.Unbake accepts. A second revocation changes nothing. The reason is optional and
// not public.
//
// The error is a fault: Invalid for a reason that is not valid, for a file without a credential, and for
// a credential that no key of an institution of this vault signed; Conflict if the vault has the
// certificate, or if another certificate has the place of the credential or can get it; NotFound if the
// credential names no status list of its institution in this vault; Unavailable if the keys cannot be read.
func (s *Service) RevokeFile(ctx context.Context, data []byte, reason string) (*FileRevocation, error) {
	// Unlike the reason of a revoked certificate, this reason is optional.
	if reason = strings.TrimSpace(reason); reason != "" {
		if _, problem := cert.FieldReason.Check(reason); problem != nil {
			return nil, cert.Problems{*problem}.Err()
		}
	}
	r, err := credential.Verify(ctx, data, credential.Options{Fetcher: s.Documents(credential.Offline{}), Now: s.now()})
	switch {
	case errors.Is(err, credential.ErrNoCredential):
		return nil, fault.New(fault.Invalid, "The file contains no credential. It must be JSON, a JWT, an SD-JWT, or a badge (PNG or SVG).")
	case errors.Is(err, credential.ErrPicture):
		return nil, fault.New(fault.Invalid, "The picture is damaged, so its credential cannot be read.")
	case err != nil:
		return nil, err
	}
	v := &FileRevocation{Title: r.Statement.Title, Reason: reason, By: audit.ActorOf(ctx).Name, At: s.now()}
	if v.Institution, err = s.signer(ctx, r); err != nil {
		return nil, err
	}
	if v.Certificate, err = certificateOf(r); err != nil {
		return nil, err
	}
	content, err := s.readPlace(ctx, r, v)
	if err != nil {
		return nil, err
	}
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		if err := s.checkPlaceTx(ctx, tx, v, content); err != nil {
			return err
		}
		return v.recordTx(ctx, tx)
	}); err != nil {
		return nil, fmt.Errorf("revoking a credential by its file: %w", err)
	}
	return v, nil
}

// signer returns the institution of this vault whose key signed a credential.
func (s *Service) signer(ctx context.Context, r *credential.Report) (*account.Institution, error) {
	if c := r.Check(credential.CheckForm); c.Result != credential.Passed {
		return nil, fault.New(fault.Invalid, "The file is not a complete credential: "+c.Detail+".")
	}
	i, err := s.institutionOf(ctx, r.Statement.IssuerID)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, fault.New(fault.Invalid, fmt.Sprintf("The issuer of the credential is %q, which is not an institution of this vault at %s. "+
			"Only the issuer can revoke it.", r.Statement.IssuerID, s.base))
	}
	for _, name := range []credential.CheckName{credential.CheckIssuer, credential.CheckProof} {
		switch c := r.Check(name); {
		case c.Result == credential.Passed:
		case c.Code == credential.CodeUnreachable:
			return nil, fault.Wrap(fault.Unavailable, "The keys of the institution "+i.Name+" cannot be read. Run certvault doctor.", errors.New(c.Detail))
		default:
			return nil, fault.New(fault.Invalid, "No key of "+i.Name+" in this vault signed the credential: the file is forged or was changed, "+
				"or the key was created after the backup and is lost. In each case no program accepts the credential, and nothing needs to be revoked.")
		}
	}
	return i, nil
}

// institutionOf returns the institution of this vault that is the issuer of a credential, or nil for
// other issuers.
func (s *Service) institutionOf(ctx context.Context, issuer string) (*account.Institution, error) {
	id := issuer[strings.LastIndexAny(issuer, ":/")+1:]
	did, err := s.DID(id)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the text is not the identifier of an institution
	}
	address, err := credential.IssuerURL(did)
	if err != nil || issuer != did && issuer != address {
		return nil, nil //nolint:nilerr,nilnil // as above
	}
	i, err := s.Institution(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil means that there is none
	}
	return i, err
}

// certificateOf returns the UUID of the certificate of a credential.
func certificateOf(r *credential.Report) (string, error) {
	id, ok := strings.CutPrefix(r.Statement.ID, "urn:uuid:")
	if !ok {
		return "", fault.New(fault.Invalid, "The credential names no certificate.")
	}
	return id, nil
}

var errNoPlace = fault.New(fault.NotFound, "The credential names no status list of its institution in this vault. "+
	"If an earlier version of the vault created the list after the backup, the list is lost: "+
	"programs that check the credential say that they could not check whether it is revoked.")

// readPlace sets the place of a credential in v, and returns the content of the status list. The list must
// belong to the institution in v.
func (s *Service) readPlace(ctx context.Context, r *credential.Report, v *FileRevocation) (*listContent, error) {
	if len(r.Places) != 1 {
		return nil, errNoPlace
	}
	path, _ := s.path(r.Places[0].List)
	id, ok := strings.CutPrefix(path, StatusPath)
	if v.Entry = (Entry{id, r.Places[0].Index}); !ok || v.Position >= listLength {
		return nil, errNoPlace
	}
	content, err := s.contentOf(ctx, id)
	if errors.Is(err, errNoList) || err == nil && content.institution != v.Institution.ID {
		return nil, errNoPlace
	}
	return content, err
}

// checkPlaceTx returns an error if a certificate of this vault has the place of a credential, or can get
// it later.
func (s *Service) checkPlaceTx(ctx context.Context, tx *db.Tx, v *FileRevocation, content *listContent) error {
	var id int64
	if content.series == nil {
		err := tx.QueryRowContext(ctx, `SELECT certificate_id FROM credential_status_entries WHERE list = $1 AND position = $2`, v.List, v.Position).Scan(&id)
		if err != nil && !noRows(err) {
			return fmt.Errorf("reading a status list: %w", err)
		}
		if noRows(err) && !content.closed {
			return errNotSpent
		}
	} else {
		o, err := s.order(*content.series)
		if err != nil {
			return err
		}
		id = content.series.first() + o.number(v.Position)
		spent, err := db.SpentTx(ctx, tx, "certificates", id)
		if err != nil {
			return err
		}
		if !spent {
			return errNotSpent
		}
	}
	var uuid, reference, status string
	err := tx.QueryRowContext(ctx, `SELECT uuid, reference_id, status FROM certificates WHERE institution_id = $1 AND id = $2`, v.Institution.ID, id).
		Scan(&uuid, &reference, &status)
	switch {
	case noRows(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading a certificate: %w", err)
	case uuid != v.Certificate:
		return fault.New(fault.Conflict, "The place of the credential in the status list belongs to the certificate "+reference+
			", because the database was restored without certvault restore. To revoke one credential, you must revoke both.")
	case cert.Status(status) == cert.Revoked:
		return fault.New(fault.Conflict, "This vault has the certificate "+reference+". It is revoked, and its credential too.")
	}
	return fault.New(fault.Conflict, "This vault has the certificate "+reference+". Revoke the certificate, on its page in the panel or through the API. "+
		"This revokes its credential too.")
}

var errNotSpent = fault.New(fault.Conflict, "A later certificate will get the place of the credential in the status list, "+
	"because the database was restored without certvault restore, which skips such places. Restore the database again with certvault restore.")

// recordTx stores the revocation and records it in the audit log. If the credential was revoked by its
// file before, recordTx reads the first revocation instead.
func (v *FileRevocation) recordTx(ctx context.Context, tx *db.Tx) error {
	done, err := tx.ExecContext(ctx, `
		INSERT INTO credential_revocations (list, position, institution_id, certificate, reason, revoked_by, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (list, position) DO NOTHING`, v.List, v.Position, v.Institution.ID, v.Certificate, v.Reason, v.By, db.Micros(v.At))
	if err != nil {
		return fmt.Errorf("storing a revocation: %w", err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return err
	}
	if v.Again = n == 0; v.Again {
		var at int64
		if err := tx.QueryRowContext(ctx, `SELECT reason, revoked_by, revoked_at FROM credential_revocations WHERE list = $1 AND position = $2 AND institution_id = $3`,
			v.List, v.Position, v.Institution.ID).Scan(&v.Reason, &v.By, &at); err != nil {
			return fmt.Errorf("reading a revocation: %w", err)
		}
		v.At = db.Time(at)
		return nil
	}
	detail := audit.Detail{"title": v.Title}
	if v.Reason != "" {
		detail["reason"] = v.Reason
	}
	return audit.RecordTx(ctx, tx, audit.Entry{
		InstitutionID: v.Institution.ID, At: v.At, Action: audit.CredentialRevoked, Detail: detail,
		Subject: audit.Subject{Type: "credential", ID: v.Certificate, Name: v.Certificate},
	})
}

// revokedByFile returns the positions of a list whose credentials were revoked by their files.
func (s *Service) revokedByFile(ctx context.Context, institutionID int64, list string) ([]int, error) {
	positions, err := db.Column[int](s.db.QueryContext(ctx, `SELECT position `+revokedByFile, institutionID, list))
	if err != nil {
		return nil, fmt.Errorf("reading the revocations by file: %w", err)
	}
	return positions, nil
}

// countRevokedByFile returns the number of positions that revokedByFile returns.
func (s *Service) countRevokedByFile(ctx context.Context, institutionID int64, list string) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) `+revokedByFile, institutionID, list).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the revocations by file: %w", err)
	}
	return n, nil
}

const revokedByFile = `FROM credential_revocations WHERE institution_id = $1 AND list = $2`

// Lost reports whether this vault issued a credential for a certificate that the vault does not have.
// The vault can lose a certificate if it is restored from a backup that is older than the certificate.
func (s *Service) Lost(ctx context.Context, r *credential.Report) (bool, error) {
	if !r.Proven() {
		return false, nil
	}
	i, err := s.institutionOf(ctx, r.Statement.IssuerID)
	if err != nil || i == nil {
		return false, err
	}
	id, err := certificateOf(r)
	if err != nil {
		return false, nil //nolint:nilerr // it is no credential of a certificate
	}
	var one int
	err = s.db.QueryRowContext(ctx, `SELECT 1 FROM certificates WHERE institution_id = $1 AND uuid = $2`, i.ID, id).Scan(&one)
	if err != nil && !noRows(err) {
		return false, fmt.Errorf("reading a certificate: %w", err)
	}
	return noRows(err), nil
}
