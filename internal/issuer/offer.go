package issuer

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"
	"time"

	"github.com/certvault/certvault/internal/account"
	"github.com/certvault/certvault/internal/cert"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/fault"
	"github.com/certvault/certvault/internal/keyring"
	"github.com/certvault/certvault/internal/mail"
)

// Numbers of sections without the name of a document are those of OpenID for Verifiable Credential
// Issuance 1.0.

const (
	// OfferLife is the time for which an offer can be redeemed.
	OfferLife = 10 * time.Minute
	// TokenLife is the time for which an access token can be used.
	TokenLife = 10 * time.Minute
	// nonceLife is the time for which a nonce can be used.
	nonceLife = 5 * time.Minute
	// CodeLength is the number of digits of the mailed code.
	CodeLength = 6
	// maxCodeTries is the number of codes that can be entered for one offer.
	maxCodeTries = 5
	// maxOffersHour and maxOffersDay limit the offers of a certificate, because each offer sends a mail.
	maxOffersHour, maxOffersDay = 5, 15
	// offerKept is the time for which an expired offer is kept, so that limitOffersTx can count it.
	offerKept = 24 * time.Hour
	// maxMailTitle and maxMailName limit texts in the mail, in characters.
	maxMailTitle, maxMailName = 200, 120
)

// WalletError is an error of the protocol that is sent to the wallet.
type WalletError struct {
	// Code is an error code of RFC 6749 (5.2), of RFC 6750 (3.1) or of OpenID4VCI (8.3.1.2).
	Code string
	// Description is for the developer of the wallet.
	Description string
}

// Error returns the code and the description.
func (e *WalletError) Error() string { return e.Code + ": " + e.Description }

// Errors of the protocol.
var (
	// The text does not reveal which of the two codes is wrong (6.3).
	errGrant = &WalletError{"invalid_grant", "The pre-authorized code or the transaction code is wrong, has expired, or was used before."}
	errToken = &WalletError{"invalid_token", "The access token is unknown or has expired."}
	// ErrProof means that the proof of possession is not valid.
	ErrProof = &WalletError{"invalid_proof", "The proof of possession is missing or not valid."}
	errNonce = &WalletError{"invalid_nonce", "The nonce of the proof is no longer valid. Request another one."}
	errOther = &WalletError{"credential_request_denied", "The credential was already issued to another key."}
	errEnded = &WalletError{"credential_request_denied", "The certificate has changed since it was offered."}
)

// Offer is an offer of a credential to the wallet of a recipient.
type Offer struct {
	// Secret is the pre-authorized code of the offer, and part of its address.
	Secret        string
	CertificateID int64
	ExpiresAt     time.Time
}

// NewOffer makes an offer of the credential of an approved certificate, and mails a code to the e-mail
// address of the certificate. A person who sees the offer cannot redeem it without the code.
// The error is fault.BadRequest if the certificate is not approved, fault.Conflict if it has changed in
// the meantime, and fault.TooMany if it was offered too often.
func (s *Service) NewOffer(ctx context.Context, c *cert.Certificate) (*Offer, error) {
	if !Has(c) || c.Status != cert.Approved {
		return nil, fault.New(fault.BadRequest, "Only an approved certificate can be added to a wallet.")
	}
	code, err := newCode()
	if err != nil {
		return nil, err
	}
	now := s.now().UTC().Truncate(time.Microsecond)
	o := &Offer{Secret: account.NewSecret(), CertificateID: c.ID, ExpiresAt: now.Add(OfferLife)}
	digest, err := s.codeDigest(o.Secret, code)
	if err != nil {
		return nil, err
	}
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		// The lock makes concurrent offers of the certificate wait, so that none of them exceeds the limit.
		status, email, err := s.certs.LockTx(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if status != cert.Approved || email != c.Email {
			return errChanged
		}
		if err := limitOffersTx(ctx, tx, c.ID, now); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO credential_offers (hash, institution_id, certificate_id, email, code, tries, created_at, expires_at) VALUES ($1, $2, $3, $4, $5, 0, $6, $7)`,
			account.HashSecret(o.Secret), c.InstitutionID, c.ID, c.Email, digest, db.Micros(now), db.Micros(o.ExpiresAt)); err != nil {
			return fmt.Errorf("storing an offer: %w", err)
		}
		return s.mailCodeTx(ctx, tx, c, code)
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// limitOffersTx returns fault.TooMany if a certificate was offered too often.
func limitOffersTx(ctx context.Context, tx *db.Tx, certificateID int64, now time.Time) error {
	for _, limit := range []struct {
		n    int
		over time.Duration
	}{{maxOffersHour, time.Hour}, {maxOffersDay, offerKept}} {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM credential_offers WHERE certificate_id = $1 AND created_at > $2`,
			certificateID, db.Micros(now.Add(-limit.over))).Scan(&n); err != nil {
			return fmt.Errorf("counting offers: %w", err)
		}
		if n >= limit.n {
			return &fault.Error{
				Kind: fault.TooMany, Message: "The certificate was offered to a wallet too often. Try again later.", RetryAfter: limit.over / time.Duration(limit.n),
			}
		}
	}
	return nil
}

// newCode returns a random code of CodeLength digits.
func newCode() (string, error) {
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(CodeLength), nil)
	n, err := rand.Int(rand.Reader, limit)
	if err != nil {
		return "", fmt.Errorf("generating a code: %w", err)
	}
	return fmt.Sprintf("%0*d", CodeLength, n), nil
}

// codeDigest returns the keyed digest of a code. Without a key, the code could be found by trying all
// codes.
func (s *Service) codeDigest(secret, code string) ([]byte, error) {
	return s.keyring.MAC(keyring.WalletCode, []byte(secret+"\n"+code))
}

// mailCodeTx queues the mail with the code.
func (s *Service) mailCodeTx(ctx context.Context, tx *db.Tx, c *cert.Certificate, code string) error {
	settings, err := account.ReadSettings(ctx, tx, c.InstitutionID)
	if err != nil {
		return err
	}
	head, err := account.MailHeadOf(ctx, tx, c.InstitutionID)
	if err != nil {
		return err
	}
	chosen, err := account.LanguageOf(ctx, tx, c.Email)
	if err != nil {
		return err
	}
	l := s.catalog.FirstOf(chosen, settings.MailLanguage)
	say, failed := l.Texts("credential_mail.")
	institution := mail.Quote(settings.Name, maxMailName, l.Direction)
	subject := say("subject")
	letter := mail.Letter{
		Language: l.Tag, Direction: l.Direction, Heading: say("heading", "code", code),
		Certificate: &mail.Certificate{Title: mail.Quote(c.Title, maxMailTitle, l.Direction), Name: mail.Quote(c.FullName, maxMailName, l.Direction)},
		Paragraphs:  []string{say("text", "minutes", int(OfferLife.Minutes())), say("never")},
		Why:         say("why", "institution", institution),
	}
	if err := failed(); err != nil {
		return fmt.Errorf("writing the code for a wallet: %w", err)
	}
	m, err := head.Write(letter, mail.Address{Name: c.FullName, Email: c.Email}, subject)
	if err != nil {
		return err
	}
	_, err = s.send(ctx, tx, m)
	return err
}

// Offered returns the offer with a secret. It can be called several times (4.1.3). The error is
// fault.NotFound if the offer is unknown, was redeemed, has expired or has ended after too many wrong
// codes.
func (s *Service) Offered(ctx context.Context, institutionID int64, secret string) (*Offer, error) {
	o := &Offer{Secret: secret}
	var expires int64
	err := s.db.QueryRowContext(ctx, `
		SELECT certificate_id, expires_at FROM credential_offers WHERE hash = $1 AND institution_id = $2 AND expires_at > $3 AND token IS NULL AND tries < $4`,
		account.HashSecret(secret), institutionID, db.Micros(s.now()), maxCodeTries).Scan(&o.CertificateID, &expires)
	if noRows(err) {
		return nil, fault.New(fault.NotFound, "The offer is unknown, was redeemed, has expired or has ended after too many wrong codes.")
	}
	if err != nil {
		return nil, fmt.Errorf("reading an offer: %w", err)
	}
	o.ExpiresAt = db.Time(expires)
	return o, nil
}

// OfferURL returns the address at which a wallet reads an offer.
func (s *Service) OfferURL(ctx context.Context, institutionID int64, o *Offer) (string, error) {
	i, err := account.InstitutionByID(ctx, s.db, institutionID)
	if err != nil {
		return "", err
	}
	return s.ID(i.UUID) + "/openid4vci/offers/" + o.Secret, nil
}

// Redeem exchanges the pre-authorized code and the mailed code of an offer for an access token
// (6.1). An offer can be redeemed once, and ends after maxCodeTries wrong codes. The error is a
// *WalletError if the codes are not valid.
func (s *Service) Redeem(ctx context.Context, institutionID int64, secret, code string) (token string, err error) {
	given, err := s.codeDigest(secret, code)
	if err != nil {
		return "", err
	}
	now := s.now()
	hash, valid := account.HashSecret(secret), false
	token = account.NewSecret()
	err = s.db.Tx(ctx, func(tx *db.Tx) error {
		valid = false
		var want []byte
		var email string
		var certificateID int64
		// The update counts the code before the comparison, so that concurrent requests cannot try more than
		// maxCodeTries codes.
		err := tx.QueryRowContext(ctx, `
			UPDATE credential_offers SET tries = tries + 1 WHERE hash = $1 AND institution_id = $2 AND expires_at > $3 AND token IS NULL AND tries < $4
			RETURNING code, email, certificate_id`, hash, institutionID, db.Micros(now), maxCodeTries).Scan(&want, &email, &certificateID)
		if noRows(err) || err == nil && !hmac.Equal(want, given) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("redeeming an offer: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE credential_offers SET token = $1, token_expires_at = $2 WHERE hash = $3`,
			account.HashSecret(token), db.Micros(now.Add(TokenLife)), hash); err != nil {
			return fmt.Errorf("redeeming an offer: %w", err)
		}
		valid = true
		return nil
	})
	if err != nil {
		return "", err
	}
	if !valid {
		return "", errGrant
	}
	return token, nil
}

// Grant is the permission of an access token: to get the credential of one certificate.
type Grant struct {
	Certificate *cert.Certificate

	hash  []byte
	found *Credential // the stored credential, or nil
}

// Granted returns the grant of an access token. The error is a *WalletError if the token is not valid,
// or if the certificate was revoked, or its e-mail address was corrected, after the offer.
func (s *Service) Granted(ctx context.Context, institutionID int64, token string) (*Grant, error) {
	g := &Grant{}
	var certificateID int64
	var email string
	err := s.db.QueryRowContext(ctx, `
		SELECT hash, certificate_id, email FROM credential_offers WHERE token = $1 AND institution_id = $2 AND token_expires_at > $3`,
		account.HashSecret(token), institutionID, db.Micros(s.now())).Scan(&g.hash, &certificateID, &email)
	if noRows(err) {
		return nil, errToken
	}
	if err != nil {
		return nil, fmt.Errorf("reading an offer: %w", err)
	}
	// The place in the status list is read before the e-mail address of the certificate is compared. If the
	// address is corrected later, the credential gets this place, which is then revoked.
	if g.found, err = s.stored(ctx, certificateID); err != nil {
		return nil, err
	}
	list, err := s.certs.ByIDs(ctx, []int64{certificateID})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 || list[0].Status != cert.Approved || list[0].Email != email || !Has(list[0]) {
		return nil, errEnded
	}
	g.Certificate = list[0]
	return g, nil
}

// Issue returns the credential of a grant, bound to the key of a holder. The same key can request the
// credential again, because a response may be lost, and in other formats. For another key, the error is
// a *WalletError.
func (s *Service) Issue(ctx context.Context, g *Grant, h *Holder, f Format) (string, error) {
	bound := false
	if err := s.db.Tx(ctx, func(tx *db.Tx) error {
		r, err := tx.ExecContext(ctx, `UPDATE credential_offers SET holder = $1 WHERE hash = $2 AND (holder IS NULL OR holder = $1)`, h.Thumbprint, g.hash)
		if err != nil {
			return fmt.Errorf("binding a credential: %w", err)
		}
		n, err := r.RowsAffected()
		bound = n > 0
		return err
	}); err != nil {
		return "", err
	}
	if !bound {
		return "", errOther
	}
	var entry Entry
	if g.found != nil {
		entry = g.found.Entry
	} else {
		var err error
		if entry, err = s.entry(ctx, g.Certificate); err != nil {
			return "", err
		}
	}
	signed, err := s.sign(ctx, g.Certificate, entry, h, []Format{f})
	if err != nil {
		return "", err
	}
	return signed.text(f), nil
}

// These are the lengths of the parts of a nonce in bytes: the time at which it expires, random bytes,
// and a digest of both.
const nonceTime, nonceRandom, nonceMAC = 8, 8, 16

// NewNonce returns a nonce that a proof of possession must contain (7). Any server of the vault accepts
// it for nonceLife. The nonce is not stored, because a proof can be replayed only with the access token.
func (s *Service) NewNonce(institution string) (string, error) {
	b := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(nonceLife).Unix()))
	b = append(b, make([]byte, nonceRandom)...)
	if _, err := rand.Read(b[nonceTime:]); err != nil {
		return "", fmt.Errorf("generating a nonce: %w", err)
	}
	mac, err := s.nonceDigest(institution, b)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(b, mac...)), nil
}

func (s *Service) nonceDigest(institution string, b []byte) ([]byte, error) {
	mac, err := s.keyring.MAC(keyring.WalletNonce, append([]byte(institution+"\n"), b...))
	if err != nil {
		return nil, err
	}
	return mac[:nonceMAC], nil
}

// CheckNonce returns a *WalletError if NewNonce did not create the nonce for the institution, or if the
// nonce has expired.
func (s *Service) CheckNonce(institution, nonce string) error {
	b, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(b) != nonceTime+nonceRandom+nonceMAC {
		return errNonce
	}
	mac, err := s.nonceDigest(institution, b[:nonceTime+nonceRandom])
	if err != nil {
		return err
	}
	if !hmac.Equal(mac, b[nonceTime+nonceRandom:]) || uint64(s.now().Unix()) > binary.BigEndian.Uint64(b) {
		return errNonce
	}
	return nil
}

// SweepInterval is the interval at which Sweep should be called.
const SweepInterval = time.Hour

// Sweep deletes offers that expired more than offerKept ago.
func (s *Service) Sweep(ctx context.Context) error {
	before := db.Micros(s.now().Add(-offerKept))
	var found sql.NullInt64
	if err := s.db.QueryRowContext(ctx, `SELECT min(expires_at) FROM credential_offers WHERE expires_at < $1`, before).Scan(&found); err != nil || !found.Valid {
		return err
	}
	return s.db.Tx(ctx, func(tx *db.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM credential_offers WHERE expires_at < $1`, before); err != nil {
			return fmt.Errorf("deleting expired offers: %w", err)
		}
		return nil
	})
}
