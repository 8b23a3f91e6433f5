package recipient

import (
	"archive/zip"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/identity"
)

const (
	// exportPage is the number of certificates that are read at a time.
	exportPage = 100
	// exportMissing is the name of the file that lists the missing files. It is only in an export
	// that lacks files.
	exportMissing = "missing-files.txt"
)

// Export has the data of the vault about a person. Service.Export reads the account, Export.SignIns
// adds the sessions and passkeys, and Export.Write adds the certificates and applications.
type Export struct {
	service *Service
	userID  int64
	about   exported
	// missing has the names of the files that are not in the archive, because the vault's stored
	// files are damaged or missing.
	missing []string
}

// exported is the content of export.json. Times are RFC 3339 in UTC.
type exported struct {
	ExportedAt   time.Time             `json:"exported_at"`
	Account      exportedAccount       `json:"account"`
	Certificates []exportedCertificate `json:"certificates"`
	Applications []ExportedApplication `json:"applications"`
	Sessions     []exportedSession     `json:"sessions"`
	Passkeys     []exportedPasskey     `json:"passkeys"`
	// Unsubscribed has the institutions from whose mail the verified addresses are unsubscribed.
	Unsubscribed []exportedUnsubscribe `json:"unsubscribed"`
	// Portfolio is null if the person has none.
	Portfolio *exportedPortfolio `json:"portfolio"`
}

// ExportedApplication is an application of the person in export.json. Package application makes it.
type ExportedApplication struct {
	UUID        string           `json:"uuid"`
	ReferenceID string           `json:"reference_id"`
	Institution string           `json:"institution"`
	Offer       string           `json:"offer"`
	FullName    string           `json:"full_name"`
	Email       string           `json:"applicant_email"`
	Status      string           `json:"status"`
	Answers     []ExportedAnswer `json:"answers"`
	Steps       []ExportedStep   `json:"steps"`
	Files       []ExportedFile   `json:"files"`
	CreatedAt   time.Time        `json:"created_at"`
	DecidedAt   *time.Time       `json:"decided_at"`
}

// ExportedAnswer is the answer to a question of an offer.
type ExportedAnswer struct {
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// ExportedStep is a step of an application, with the text that the person sees.
type ExportedStep struct {
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	Text   string    `json:"text"`
}

// ExportedFile is an attachment of an application. Name is the name of the attachment, and File the
// name of its file in the archive, or "" if the attachment is not in the archive.
type ExportedFile struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Open opens the attachment. It is nil if the attachment was deleted.
	Open func(ctx context.Context) (*cert.Content, error) `json:"-"`
}

type exportedUnsubscribe struct {
	Institution string    `json:"institution"`
	At          time.Time `json:"at"`
}

type exportedSession struct {
	Method     string    `json:"method"`
	Address    string    `json:"address"`
	UserAgent  string    `json:"user_agent"`
	CreatedAt  time.Time `json:"created_at"`
	LastSeenAt time.Time `json:"last_seen_at"`
}

type exportedPasskey struct {
	Name      string     `json:"name"`
	CreatedAt time.Time  `json:"created_at"`
	UsedAt    *time.Time `json:"used_at"`
}

type exportedAccount struct {
	UUID      string     `json:"uuid"`
	Name      string     `json:"name"`
	Email     string     `json:"email"`
	Language  string     `json:"language"`
	CreatedAt time.Time  `json:"created_at"`
	ProvedAt  *time.Time `json:"email_proved_at"`
	// Addresses are the further addresses.
	Addresses []exportedAddress `json:"further_addresses"`
}

type exportedAddress struct {
	Email    string    `json:"email"`
	ProvedAt time.Time `json:"email_proved_at"`
}

type exportedCertificate struct {
	UUID             string     `json:"uuid"`
	ReferenceID      string     `json:"reference_id"`
	Institution      string     `json:"institution"`
	CustomerID       int64      `json:"customer_id"`
	Title            string     `json:"certificate_title"`
	FullName         string     `json:"full_name"`
	Email            string     `json:"applicant_email"`
	IssueDate        string     `json:"issue_date"`
	Details          string     `json:"details"`
	Status           string     `json:"status"`
	ApprovedAt       *time.Time `json:"approved_at"`
	RevokedAt        *time.Time `json:"revoked_at"`
	RevocationReason string     `json:"revocation_reason"`
	// Replaces and ReplacedBy are reference ids of other certificates.
	Replaces        string `json:"replaces,omitempty"`
	ReplacedBy      string `json:"replaced_by,omitempty"`
	VerificationURL string `json:"verification_url"`
	VerifiedFile    string `json:"verified_file"`
	VerifiedSHA256  string `json:"verified_sha256"`
	OriginalFile    string `json:"original_file"`
	// FilesDeletedAt is the time at which the files of a revoked certificate were deleted.
	FilesDeletedAt *time.Time `json:"files_ended_at,omitempty"`
	// MissingFiles are the names of the files that are not in the export, because the vault's stored
	// files are damaged or missing.
	MissingFiles   []string             `json:"missing_files,omitempty"`
	OriginalSHA256 string               `json:"original_sha256"`
	Mails          []exportedMail       `json:"mails"`
	ShareLinks     []exportedShare      `json:"share_links"`
	Corrections    []exportedCorrection `json:"correction_requests"`
	// ExpiresOn is the last day of validity, or "".
	ExpiresOn string `json:"expires_on"`
}

type exportedMail struct {
	Email  string    `json:"email"`
	Status string    `json:"status"`
	At     time.Time `json:"at"`
}

type exportedShare struct {
	Label     string     `json:"label"`
	Public    bool       `json:"public"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

type exportedCorrection struct {
	Text      string    `json:"text"`
	CreatedAt time.Time `json:"created_at"`
}

// Export counts the export for the daily limit, and reads the account, the portfolio, and the
// institutions from whose mail the person is unsubscribed. Export.SignIns adds sessions and passkeys;
// Export.Write reads the certificates, the applications and their files. The error is fault.TooMany if
// the daily limit is reached.
func (s *Service) Export(ctx context.Context, userID int64) (*Export, error) {
	if err := s.db.Tx(ctx, func(tx *db.Tx) error { return s.allowTx(ctx, tx, Holder{userID: userID}.key(), exporting) }); err != nil {
		return nil, err
	}
	e := &Export{service: s, userID: userID, about: exported{
		ExportedAt: s.now().UTC(), Certificates: []exportedCertificate{}, Sessions: []exportedSession{}, Passkeys: []exportedPasskey{}, Unsubscribed: []exportedUnsubscribe{},
	}}
	a := &e.about.Account
	u, err := account.UserByID(ctx, s.db, userID)
	if err != nil {
		return nil, err
	}
	a.Addresses = []exportedAddress{}
	a.UUID, a.Name, a.Email, a.Language, a.CreatedAt, a.ProvedAt = u.UUID, u.Name, u.Email, u.Language, u.CreatedAt, u.VerifiedAt
	if e.about.Portfolio, err = s.exportPortfolio(ctx, userID); err != nil {
		return nil, err
	}
	if u.VerifiedAt == nil {
		return e, nil
	}
	addresses := []string{u.EmailFolded}
	further, err := account.Addresses(ctx, s.db, userID)
	if err != nil {
		return nil, err
	}
	for _, f := range further {
		a.Addresses = append(a.Addresses, exportedAddress{f.Text, f.VerifiedAt})
		addresses = append(addresses, f.Folded)
	}
	for _, address := range addresses {
		list, err := s.unsubscribes(ctx, address)
		if err != nil {
			return nil, err
		}
		e.about.Unsubscribed = append(e.about.Unsubscribed, list...)
	}
	return e, nil
}

// unsubscribes returns the institutions from whose mail an address is unsubscribed.
func (s *Service) unsubscribes(ctx context.Context, emailFolded string) ([]exportedUnsubscribe, error) {
	type refusal struct {
		institution int64
		at          time.Time
	}
	list, err := readTimed(ctx, s.db, func(institution int64, at time.Time) refusal { return refusal{institution, at} },
		`SELECT institution_id, created_at FROM unsubscribes WHERE email_folded = $1 ORDER BY created_at, institution_id`, emailFolded)
	if err != nil {
		return nil, fmt.Errorf("reading unsubscribed institutions: %w", err)
	}
	ids := make([]int64, len(list))
	for i, r := range list {
		ids[i] = r.institution
	}
	issuers, err := account.Summaries(ctx, s.db, ids)
	if err != nil {
		return nil, err
	}
	names := map[int64]string{}
	for _, i := range issuers {
		names[i.ID] = i.Name
	}
	exported := make([]exportedUnsubscribe, len(list))
	for i, r := range list {
		exported[i] = exportedUnsubscribe{names[r.institution], r.at}
	}
	return exported, nil
}

// SignIns adds the person's sessions and passkeys.
func (e *Export) SignIns(sessions []*identity.Session, passkeys []identity.Passkey) {
	for _, s := range sessions {
		e.about.Sessions = append(e.about.Sessions, exportedSession{
			Method: string(s.Method), Address: s.Address, UserAgent: s.UserAgent, CreatedAt: s.CreatedAt, LastSeenAt: s.LastSeenAt,
		})
	}
	for _, k := range passkeys {
		e.about.Passkeys = append(e.about.Passkeys, exportedPasskey{Name: k.Name, CreatedAt: k.CreatedAt, UsedAt: k.UsedAt})
	}
}

// Write writes the export as a ZIP file: export.json, and a folder with the files of each
// certificate and of each application. To use little memory, Write reads certificates in pages of
// exportPage and copies files in parts. A file that is damaged or missing is not in the export. Its
// name is listed in missing-files.txt, and for a certificate also in export.json.
func (e *Export) Write(ctx context.Context, w io.Writer) error {
	s := e.service
	names := map[int64]string{}
	issuers, err := s.issuers(ctx, e.userID)
	if err != nil {
		return err
	}
	for _, i := range issuers {
		names[i.ID] = i.Name
	}
	z := zip.NewWriter(w)
	for after := int64(0); ; {
		list, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT c.id`+issued+` AND c.id > $2 ORDER BY c.id LIMIT $3`, e.userID, after, exportPage))
		if err != nil {
			return fmt.Errorf("reading a person's certificates: %w", err)
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1]
		certificates, err := s.certs.ByIDs(ctx, list)
		if err != nil {
			return err
		}
		for _, c := range certificates {
			x, err := e.certificate(ctx, z, c, names[c.InstitutionID])
			if err != nil {
				return err
			}
			e.about.Certificates = append(e.about.Certificates, *x)
		}
	}
	if err := e.applications(ctx, z); err != nil {
		return err
	}
	f, err := z.CreateHeader(&zip.FileHeader{Name: "export.json", Method: zip.Deflate, Modified: e.about.ExportedAt})
	if err != nil {
		return fmt.Errorf("writing an export: %w", err)
	}
	out := json.NewEncoder(f)
	out.SetIndent("", "  ")
	err = out.Encode(e.about)
	if err == nil && len(e.missing) > 0 {
		err = e.writeMissing(z)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		return fmt.Errorf("writing an export: %w", err)
	}
	return nil
}

// applications writes the attachments of the person's applications, and adds the applications to
// export.json.
func (e *Export) applications(ctx context.Context, z *zip.Writer) error {
	e.about.Applications = []ExportedApplication{}
	if e.service.applied == nil {
		return nil
	}
	list, err := e.service.applied(ctx, e.userID)
	if err != nil {
		return err
	}
	for _, a := range list {
		for i := range a.Files {
			f := &a.Files[i]
			if f.Open == nil {
				continue
			}
			name := fmt.Sprintf("applications/%s/%d%s", a.UUID, i+1, path.Ext(f.Name))
			content, err := f.Open(ctx)
			if fault.Is(err, fault.Damaged) {
				e.missing = append(e.missing, name)
				continue
			}
			if err == nil {
				err = addContent(z, name, a.CreatedAt, content)
			}
			if err != nil {
				return err
			}
			f.File = name
		}
		e.about.Applications = append(e.about.Applications, a)
	}
	return nil
}

// writeMissing writes the list of the missing files in the language of the account.
func (e *Export) writeMissing(z *zip.Writer) error {
	text, err := e.service.catalog.FirstOf(e.about.Account.Language).Text("recipient.export_missing")
	if err != nil {
		return err
	}
	f, err := z.CreateHeader(&zip.FileHeader{Name: exportMissing, Method: zip.Deflate, Modified: e.about.ExportedAt})
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text+"\n\n"+strings.Join(e.missing, "\n")+"\n")
	return err
}

// certificate writes a certificate's files and returns its entry in export.json.
func (e *Export) certificate(ctx context.Context, z *zip.Writer, c *cert.Certificate, institution string) (x *exportedCertificate, err error) {
	s := e.service
	x = &exportedCertificate{
		UUID: c.UUID, ReferenceID: c.ReferenceID, Institution: institution, CustomerID: c.CustomerID, Title: c.Title, FullName: c.FullName, Email: c.Email,
		IssueDate: c.IssueDate, Details: c.Details, Status: string(c.Status), ApprovedAt: c.ApprovedAt, RevokedAt: c.RevokedAt,
		RevocationReason: c.RevocationReason, VerificationURL: s.to("/verify/" + c.ReferenceID), OriginalSHA256: c.OriginalDigest(),
		Mails: []exportedMail{}, ShareLinks: []exportedShare{}, Corrections: []exportedCorrection{}, ExpiresOn: c.ExpiresOn,
	}
	if c.Replaces != nil {
		x.Replaces = c.Replaces.ReferenceID
	}
	if c.ReplacedBy != nil {
		x.ReplacedBy = c.ReplacedBy.ReferenceID
	}
	if c.FilesDeletedAt != nil {
		x.FilesDeletedAt = c.FilesDeletedAt
	} else if x.OriginalFile, err = e.addFile(ctx, z, x, c.ReferenceID+"/original"+path.Ext(c.File.Name), c, s.certs.OpenOriginal); err != nil {
		return nil, err
	}
	if c.Verified != nil {
		x.VerifiedSHA256 = hex.EncodeToString(c.Verified.SHA256[:])
	}
	if c.Verified != nil && c.FilesDeletedAt == nil {
		if x.VerifiedFile, err = e.addFile(ctx, z, x, c.ReferenceID+"/"+c.ReferenceID+".pdf", c, s.certs.OpenVerified); err != nil {
			return nil, err
		}
	}
	notices, err := s.Notices(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, n := range notices {
		x.Mails = append(x.Mails, exportedMail{Email: n.Email, Status: string(n.Status), At: n.UpdatedAt})
	}
	shares, err := s.Shares(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, h := range shares {
		x.ShareLinks = append(x.ShareLinks, exportedShare{Label: h.Label, Public: h.Public, CreatedAt: h.CreatedAt, ExpiresAt: h.ExpiresAt, RevokedAt: h.RevokedAt})
	}
	requests, err := readTimed(ctx, s.db, func(text string, at time.Time) exportedCorrection { return exportedCorrection{text, at} },
		`SELECT text, created_at FROM corrections WHERE certificate_id = $1 AND user_id = $2 ORDER BY id`, c.ID, e.userID)
	if err != nil {
		return nil, fmt.Errorf("reading requests for correction: %w", err)
	}
	x.Corrections = append(x.Corrections, requests...)
	return x, nil
}

// readTimed reads the rows of a query whose columns are a value and a time. It calls the function of for each
// row and returns the results.
func readTimed[V, T any](ctx context.Context, q db.Queryer, of func(value V, at time.Time) T, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return db.Collect(rows, func(rows *sql.Rows) (T, error) {
		var value V
		var at int64
		err := rows.Scan(&value, &at)
		return of(value, db.Time(at)), err
	})
}

// opener opens a stored file of a certificate.
type opener func(context.Context, *cert.Certificate) (*cert.Content, error)

// addFile adds a stored file to the archive and returns its name. addFile does not compress the
// file, because stored files are already compressed. If the file is damaged or missing, addFile
// records the name as missing and returns "".
func (e *Export) addFile(ctx context.Context, z *zip.Writer, x *exportedCertificate, name string, c *cert.Certificate, open opener) (added string, err error) {
	content, err := open(ctx, c)
	if fault.Is(err, fault.Damaged) {
		x.MissingFiles, e.missing = append(x.MissingFiles, name), append(e.missing, name)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if err := addContent(z, name, c.CreatedAt, content); err != nil {
		return "", err
	}
	return name, nil
}

// addContent adds content to the archive as a file, and closes content.
func addContent(z *zip.Writer, name string, modified time.Time, content *cert.Content) (err error) {
	defer func() { err = errors.Join(err, content.Close()) }()
	f, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: modified})
	if err != nil {
		return fmt.Errorf("writing an export: %w", err)
	}
	if _, err := io.Copy(f, content); err != nil {
		return fmt.Errorf("writing an export: %w", err)
	}
	return nil
}
