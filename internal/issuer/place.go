package issuer

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/certvault/certvault/internal/credential"
	"github.com/certvault/certvault/internal/db"
	"github.com/certvault/certvault/internal/keyring"
)

// listLength is the number of entries of a status list. A list has many entries, so that a request for
// the list does not reveal which credential is checked.
const listLength = credential.StatusListSize

// Entry is the place of a certificate's credentials in a status list.
type Entry struct {
	List     string
	Position int
}

// series identifies a status list. The list has the certificates of an institution for which id /
// listLength, an integer division, is block. version is the number of corrections of the address of a
// certificate. Each correction revokes the credential, so the next credential of the certificate is in
// another list.
//
// A place is derived from the certificate, the version and the master key. Therefore a vault that was
// restored from a backup can compute the places of credentials that were created after the backup, and
// no other certificate gets these places (ADR 0059).
type series struct {
	institution int64
	block       int64
	version     int
}

// bytes returns a series as 16 bytes. The last two are zero.
func (l series) bytes() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(l.institution))
	b = binary.BigEndian.AppendUint32(b, uint32(l.block))
	b = binary.BigEndian.AppendUint16(b, uint16(l.version))
	return append(b, 0, 0)
}

// first returns the lowest id of a certificate in the list.
func (l series) first() int64 { return l.block * listLength }

// listCipher returns the cipher for a use: "id" for the ids of lists, or "order" for the order of the
// positions in a list.
func (s *Service) listCipher(use string) (cipher.Block, error) {
	key, err := s.keyring.MAC(keyring.StatusList, []byte(use))
	if err != nil {
		return nil, err
	}
	return aes.NewCipher(key)
}

// seriesID returns the id of a list: the encrypted series in the form of a UUID. The id does not reveal
// the number of certificates, or which lists belong to one institution.
func (s *Service) seriesID(l series) (string, error) {
	c, err := s.listCipher("id")
	if err != nil {
		return "", err
	}
	var id uuid.UUID
	c.Encrypt(id[:], l.bytes())
	return id.String(), nil
}

// seriesOf decrypts the id of a list. The error is errNoList if the result is not a series.
func (s *Service) seriesOf(id string) (series, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		return series{}, errNoList
	}
	c, err := s.listCipher("id")
	if err != nil {
		return series{}, err
	}
	var b [aes.BlockSize]byte
	c.Decrypt(b[:], u[:])
	l := series{int64(binary.BigEndian.Uint64(b[:])), int64(binary.BigEndian.Uint32(b[8:])), int(binary.BigEndian.Uint16(b[12:]))}
	if l.institution < 0 || b[14] != 0 || b[15] != 0 {
		return series{}, errNoList
	}
	return l, nil
}

// The order of a list is a permutation of its 2^17 positions: a Feistel network whose halves have 8 and
// 9 bits. A position does not reveal when a certificate was created, or how many certificates there are.
const (
	orderRounds = 10
	lowBits     = 8
	highBits    = 9
)

// order is the permutation of the positions of a list. It has one table for each round of the Feistel
// network.
type order [orderRounds][1 << highBits]uint16

// order returns the order of a list.
func (s *Service) order(l series) (*order, error) {
	c, err := s.listCipher("order")
	if err != nil {
		return nil, err
	}
	var o order
	stream := make([]byte, orderRounds*2<<highBits)
	cipher.NewCTR(c, l.bytes()).XORKeyStream(stream, stream)
	for r := range o {
		for i := range o[r] {
			o[r][i] = binary.BigEndian.Uint16(stream[(r<<highBits+i)*2:])
		}
	}
	return &o, nil
}

// position returns the position of the certificate with the index n in a list. The first index is 0.
func (o *order) position(n int64) int {
	low, high := uint16(n)&(1<<lowBits-1), uint16(n>>lowBits)&(1<<highBits-1)
	for r := range o {
		if r%2 == 0 {
			high ^= o[r][low] & (1<<highBits - 1)
		} else {
			low ^= o[r][high] & (1<<lowBits - 1)
		}
	}
	return int(high)<<lowBits | int(low)
}

// number is the inverse of position. It runs the rounds in reverse order.
func (o *order) number(position int) int64 {
	low, high := uint16(position&(1<<lowBits-1)), uint16(position>>lowBits&(1<<highBits-1))
	for r := orderRounds - 1; r >= 0; r-- {
		if r%2 == 0 {
			high ^= o[r][low] & (1<<highBits - 1)
		} else {
			low ^= o[r][high] & (1<<lowBits - 1)
		}
	}
	return int64(high)<<lowBits | int64(low)
}

// place returns the place of a certificate's credentials.
func (s *Service) place(institutionID, certificateID int64, version int) (Entry, error) {
	l := series{institutionID, certificateID / listLength, version}
	if l.block >= 1<<32 || version >= 1<<16 {
		return Entry{}, fmt.Errorf("certificate %d has no place in a status list", certificateID)
	}
	id, err := s.seriesID(l)
	if err != nil {
		return Entry{}, err
	}
	o, err := s.order(l)
	if err != nil {
		return Entry{}, err
	}
	return Entry{id, o.position(certificateID - l.first())}, nil
}

// version returns the number of corrections of the address of a certificate.
func version(ctx context.Context, q db.Queryer, institutionID, certificateID int64) (n int, err error) {
	err = q.QueryRowContext(ctx, `SELECT version FROM credential_versions WHERE institution_id = $1 AND certificate_id = $2`, institutionID, certificateID).Scan(&n)
	if err != nil && !noRows(err) {
		return 0, fmt.Errorf("reading the version of a credential: %w", err)
	}
	return n, nil
}

// revokedIn returns the ids of the certificates whose credentials in a list are revoked, because the
// certificate was revoked or its address was corrected.
func (s *Service) revokedIn(ctx context.Context, l series) ([]int64, error) {
	list, err := db.Column[int64](s.db.QueryContext(ctx, `SELECT id `+revokedInSeries, l.institution, l.first(), l.first()+listLength, l.version))
	if err != nil {
		return nil, fmt.Errorf("reading the revocations of a status list: %w", err)
	}
	return list, nil
}

// countRevokedIn returns the number of ids that revokedIn returns.
func (s *Service) countRevokedIn(ctx context.Context, l series) (n int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) `+revokedInSeries, l.institution, l.first(), l.first()+listLength, l.version).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the revocations of a status list: %w", err)
	}
	return n, nil
}

const revokedInSeries = `FROM (
	SELECT id FROM certificates WHERE institution_id = $1 AND status = 'revoked' AND id >= $2 AND id < $3
	UNION SELECT certificate_id FROM credential_versions WHERE institution_id = $1 AND certificate_id >= $2 AND certificate_id < $3 AND version > $4) AS revoked`
