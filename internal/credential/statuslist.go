package credential

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// StatusListSize is the number of entries of a status list. The specification requires at least this
// number, so that a request for the list does not reveal which credential is verified (BSL, 6.1).
const StatusListSize = 131_072

// maxStatusBytes is the maximum size of a decompressed status list, enough for 4 million entries.
const maxStatusBytes = 512 << 10

const (
	purposeRevocation = "revocation"
	typeStatusList    = "BitstringStatusList"
	typeStatusListVC  = "BitstringStatusListCredential"
	typeStatusEntry   = "BitstringStatusListEntry"
)

// MediaTypeStatusJWT is the media type of a status list token (TSL, 14.7).
const MediaTypeStatusJWT = "application/statuslist+jwt"

var errStatusList = errors.New("the status list is damaged")

// Bitstring has one bit for each entry of a status list; entry 0 is the most significant bit of the
// first byte (BSL, 2.2).
type Bitstring []byte

// NewBitstring returns a list of StatusListSize entries, of which only the given entries are set.
func NewBitstring(set ...int) (Bitstring, error) {
	b := make(Bitstring, StatusListSize/8)
	for _, i := range set {
		if i < 0 || i >= StatusListSize {
			return nil, fmt.Errorf("%d is not an index of a status list", i)
		}
		b[i/8] |= 0x80 >> (i % 8)
	}
	return b, nil
}

// Get reports whether an entry is set. It returns an error if the list has no such entry.
func (b Bitstring) Get(i int) (bool, error) {
	if i < 0 || i/8 >= len(b) {
		return false, fmt.Errorf("%w: it has no entry %d", errStatusList, i)
	}
	return b[i/8]&(0x80>>(i%8)) != 0, nil
}

// encode compresses the list with GZIP and returns it in multibase base64url (BSL, 3.3).
func (b Bitstring) encode() (string, error) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return "u" + base64url(z.Bytes()), nil
}

// decodeBitstring decodes a list (BSL, 3.4). It limits the size of the result, because data can become a
// thousand times as large when it is decompressed.
func decodeBitstring(s string) (Bitstring, error) {
	encoded, ok := strings.CutPrefix(s, "u")
	if !ok {
		return nil, fmt.Errorf("%w: it is not base64url", errStatusList)
	}
	data, err := unbase64url(encoded)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStatusList, err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStatusList, err)
	}
	b, err := inflate(r)
	if err != nil {
		return nil, err
	}
	if len(b) < StatusListSize/8 {
		return nil, fmt.Errorf("%w: it is too short", errStatusList)
	}
	return b, nil
}

func inflate(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxStatusBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStatusList, err)
	}
	if len(b) > maxStatusBytes {
		return nil, fmt.Errorf("%w: it is too large", errStatusList)
	}
	return b, nil
}

// StatusList is a list of revoked credentials.
type StatusList struct {
	URL    string // where the list is published; also its id
	Issuer string // the DID of the issuer of the credentials
	Bits   Bitstring
	Issued time.Time
	// Lifetime is the time for which the list may be used after Issued.
	Lifetime time.Duration
	// MaxAge is the time after which a verifier should read the list again, or 0.
	MaxAge time.Duration
}

type statusDocument struct {
	Context           []string      `json:"@context"`
	ID                string        `json:"id"`
	Type              []string      `json:"type"`
	Issuer            string        `json:"issuer"`
	ValidFrom         string        `json:"validFrom"`
	ValidUntil        string        `json:"validUntil"`
	CredentialSubject statusSubject `json:"credentialSubject"`
	Proof             *proof        `json:"proof,omitempty"`
}

type statusSubject struct {
	ID            string `json:"id"`
	Type          string `json:"type"`
	StatusPurpose string `json:"statusPurpose"`
	EncodedList   string `json:"encodedList"`
}

// SignStatusList returns a status list credential with a Data Integrity proof (BSL, 2.2). The key is
// an Ed25519 key of the issuer.
func SignStatusList(l StatusList, key crypto.Signer) ([]byte, error) {
	encoded, err := l.Bits.encode()
	if err != nil {
		return nil, fmt.Errorf("encoding a status list: %w", err)
	}
	d := statusDocument{
		Context: []string{ContextVC}, ID: l.URL, Type: []string{"VerifiableCredential", typeStatusListVC}, Issuer: l.Issuer,
		ValidFrom: l.Issued.UTC().Format(time.RFC3339), ValidUntil: l.Issued.Add(l.Lifetime).UTC().Format(time.RFC3339),
		CredentialSubject: statusSubject{ID: l.URL + "#list", Type: typeStatusList, StatusPurpose: purposeRevocation, EncodedList: encoded},
	}
	if d.Proof, err = newProof(d, l.Issuer, key, l.Issued); err != nil {
		return nil, fmt.Errorf("signing a status list: %w", err)
	}
	return marshal(d)
}

// SignStatusToken returns a status list token, which is the status list for SD-JWT VC (TSL, 5.1). The key
// is a P-256 key of the issuer. The token is served at the same URL as the status list credential, for
// requests that accept MediaTypeStatusJWT.
func SignStatusToken(l StatusList, key crypto.Signer) (string, error) {
	bits := make([]byte, len(l.Bits))
	for i, b := range l.Bits { // entry 0 is the least significant bit (TSL, 4.1)
		for n := range 8 {
			bits[i] |= b >> n & 1 << (7 - n)
		}
	}
	var z bytes.Buffer
	w, err := zlib.NewWriterLevel(&z, zlib.BestCompression)
	if err == nil {
		_, err = w.Write(bits)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return "", fmt.Errorf("encoding a status list: %w", err)
	}
	name, err := fragment(key.Public())
	if err != nil {
		return "", fmt.Errorf("signing a status list: %w", err)
	}
	issuer, err := IssuerURL(l.Issuer)
	if err != nil {
		return "", fmt.Errorf("signing a status list: %w", err)
	}
	claims := map[string]any{
		"iss": issuer, "sub": l.URL, "iat": l.Issued.Unix(), "exp": l.Issued.Add(l.Lifetime).Unix(),
		"status_list": map[string]any{"bits": 1, "lst": base64url(z.Bytes())},
	}
	if l.MaxAge > 0 {
		claims["ttl"] = int(l.MaxAge.Seconds())
	}
	return signJWT(key, name, "statuslist+jwt", "", claims)
}

// decodeToken decodes the list of a status list token, which must have one bit for each entry (TSL, 4.2).
func decodeToken(list map[string]any) (Bitstring, error) {
	if list["bits"] != 1.0 {
		return nil, fmt.Errorf("%w: it does not have one bit for each entry", errStatusList)
	}
	data, err := unbase64url(text(list, "lst"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStatusList, err)
	}
	r, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStatusList, err)
	}
	bits, err := inflate(r)
	if err != nil {
		return nil, err
	}
	for i, b := range bits {
		bits[i] = 0
		for n := range 8 {
			bits[i] |= b >> n & 1 << (7 - n)
		}
	}
	return bits, nil
}
