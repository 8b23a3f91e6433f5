package pades

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"time"
	"unicode"
)

// ErrTimeStamp reports that the time-stamp authority did not return a valid
// time stamp. A retry may succeed.
var ErrTimeStamp = errors.New("no valid time stamp was received")

const (
	// firstToken is the number of bytes reserved for the first token of an authority.
	// For later tokens, the size of the largest token so far is used.
	firstToken = 4096
	// tokenSlack is added to the size of the largest token: serial numbers,
	// fractions of seconds and ECDSA signatures vary in length.
	tokenSlack = 64
	// maxToken is the maximum size of a token in a response.
	maxToken = 64 << 10
)

// TimeStampAuthority requests time stamps (RFC 3161). It is safe for concurrent use. Use one value
// for all signatures, because the value records the size of the tokens.
type TimeStampAuthority struct {
	send func(ctx context.Context, request []byte) ([]byte, error)
	size atomic.Int64 // size of the largest token so far; 0 if there was none
}

// NewTimeStampAuthority returns an authority that calls send for each request. send
// takes the DER of a TimeStampReq and returns the DER of the TimeStampResp. Over
// HTTP, a request is a POST of application/timestamp-query (RFC 3161, 3.4). send
// should limit the size of the response.
func NewTimeStampAuthority(send func(ctx context.Context, request []byte) ([]byte, error)) *TimeStampAuthority {
	return &TimeStampAuthority{send: send}
}

// reserve returns the number of bytes to reserve for a token.
func (t *TimeStampAuthority) reserve() int {
	if n := int(t.size.Load()); n > 0 {
		return n + tokenSlack
	}
	return firstToken
}

// stamp requests the time-stamp token for a signature value, and checks it.
func (t *TimeStampAuthority) stamp(ctx context.Context, signature []byte) ([]byte, error) {
	digest := sha256.Sum256(signature)
	nonce, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTimeStamp, err)
	}
	response, err := t.send(ctx, timeStampRequest(digest[:], nonce))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTimeStamp, err)
	}
	token, err := parseTimeStampResponse(response)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTimeStamp, err)
	}
	stamp, err := parseTimeStamp(token)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTimeStamp, err)
	}
	if err := stamp.check(signature); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTimeStamp, err)
	}
	if stamp.nonce == nil || stamp.nonce.Cmp(nonce) != 0 { // RFC 3161, 2.4.2
		return nil, fmt.Errorf("%w: the response is for another request", ErrTimeStamp)
	}
	for n := t.size.Load(); int64(len(token)) > n && !t.size.CompareAndSwap(n, int64(len(token))); {
		n = t.size.Load()
	}
	return token, nil
}

// timeStampRequest encodes a TimeStampReq (RFC 3161, 2.4.1), with certReq so
// that the token includes the authority's certificate.
func timeStampRequest(digest []byte, nonce *big.Int) []byte {
	return tlv(tagSequence,
		[]byte{tagInteger, 1, 1},
		tlv(tagSequence, derAlgorithm(oidSHA256, tagNull, 0), tlv(tagOctetString, digest)),
		derInteger(nonce),
		[]byte{tagBoolean, 1, 0xff},
	)
}

// parseTimeStampResponse returns the token of a TimeStampResp (RFC 3161,
// 2.4.2), or an error with the authority's status.
func parseTimeStampResponse(response []byte) ([]byte, error) {
	d := der(response)
	body, err := d.next(tagSequence)
	if err != nil || d.end() != nil {
		return nil, errors.Join(err, d.end())
	}
	info, err := body.next(tagSequence)
	if err != nil {
		return nil, err
	}
	status, err := info.small()
	if err != nil {
		return nil, err
	}
	if status > 1 { // neither granted nor grantedWithMods
		text := ""
		if info.is(tagSequence) {
			if list, err := info.next(tagSequence); err == nil && list.is(tagUTF8String) {
				if s, err := list.next(tagUTF8String); err == nil {
					text = printable(s)
				}
			}
		}
		return nil, fmt.Errorf("the authority rejected the request with status %d %q", status, text) //nolint:err113 // no caller distinguishes it
	}
	token, err := body.whole(tagSequence)
	if err != nil || body.end() != nil {
		return nil, errors.Join(err, body.end())
	}
	if len(token) > maxToken {
		return nil, fmt.Errorf("the token has %d bytes, more than %d", len(token), maxToken) //nolint:err113 // no caller distinguishes it
	}
	return token, nil
}

// printable returns the first 200 bytes of an external text without characters
// that cannot be printed.
func printable(text []byte) string {
	text = bytes.ToValidUTF8(text[:min(len(text), 200)], nil) // the cut may be within a character
	return string(bytes.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
}

// timeStamp is a time-stamp token: SignedData over TSTInfo.
type timeStamp struct {
	*signedData

	hash   crypto.Hash
	digest []byte // message imprint
	time   time.Time
	nonce  *big.Int // nil if absent
}

// parseTimeStamp parses a token and its TSTInfo (RFC 3161, 2.4.2).
func parseTimeStamp(token []byte) (*timeStamp, error) {
	signed, err := parseSignedData(token)
	if err != nil {
		return nil, err
	}
	if !oidTSTInfo.Equal(signed.contentType) || signed.content == nil {
		return nil, fmt.Errorf("%w: TSTInfo is missing", errDER)
	}
	t := &timeStamp{signedData: signed}
	d := der(signed.content)
	body, err := d.next(tagSequence)
	if err != nil || d.end() != nil {
		return nil, errors.Join(err, d.end())
	}
	if version, err := body.small(); err != nil || version != 1 {
		return nil, fmt.Errorf("%w: invalid version of TSTInfo", errDER)
	}
	if _, err := body.oid(); err != nil { // policy
		return nil, err
	}
	imprint, err := body.next(tagSequence)
	if err != nil {
		return nil, err
	}
	algorithm, err := imprint.algorithm(tagSequence)
	if err != nil {
		return nil, err
	}
	if t.hash, err = algorithm.digest(); err != nil {
		return nil, err
	}
	if t.digest, err = imprint.next(tagOctetString); err != nil || imprint.end() != nil {
		return nil, errors.Join(err, imprint.end())
	}
	if _, err := body.integer(); err != nil { // serial number
		return nil, err
	}
	genTime, err := body.next(tagGeneralizedTime)
	if err != nil {
		return nil, err
	}
	// time.Parse accepts fractions of seconds.
	if t.time, err = time.Parse("20060102150405Z", string(genTime)); err != nil {
		return nil, fmt.Errorf("%w: invalid genTime", errDER)
	}
	if err := t.parseRest(body); err != nil {
		return nil, err
	}
	return t, nil
}

// parseRest parses the optional fields of TSTInfo: accuracy, ordering, nonce,
// tsa and extensions.
func (t *timeStamp) parseRest(body der) error {
	for _, tag := range []byte{tagSequence, tagBoolean, tagInteger, tagContextCons, tagContextCons | 1} {
		if !body.is(tag) {
			continue
		}
		if tag == tagInteger {
			nonce, err := body.integer()
			if err != nil {
				return err
			}
			t.nonce = nonce
			continue
		}
		if _, err := body.whole(tag); err != nil {
			return err
		}
	}
	return body.end()
}

// check checks that the token is a valid time stamp of a signature value: its
// imprint, its signature, and the identity and usage of its certificate. It
// does not check whether the authority is trusted.
func (t *timeStamp) check(signature []byte) error {
	h := t.hash.New()
	h.Write(signature)
	return t.checkDigest(h.Sum(nil))
}

// checkDigest is like check, but takes the digest of the stamped data.
func (t *timeStamp) checkDigest(digest []byte) error {
	if !bytes.Equal(digest, t.digest) {
		return fmt.Errorf("%w: the time stamp is for other data", errMismatch)
	}
	content := t.signer.hash.New()
	content.Write(t.content)
	p := t.signedData.check(content.Sum(nil))
	if err := cmp.Or(p.digest, p.signature); err != nil {
		return err
	}
	if !p.bound { // RFC 3161, 2.4.2 with RFC 5816
		return fmt.Errorf("%w: the token does not identify its certificate", errMismatch)
	}
	return mayTimeStamp(t.certificate())
}

// mayTimeStamp returns an error unless a certificate is only for time stamping
// (RFC 3161, 2.3).
func mayTimeStamp(c *x509.Certificate) error {
	if len(c.ExtKeyUsage) != 1 || c.ExtKeyUsage[0] != x509.ExtKeyUsageTimeStamping || len(c.UnknownExtKeyUsage) > 0 || !critical(c, oidExtKeyUsage) {
		return fmt.Errorf("%w: the certificate of the time stamp is not for time stamping", errMismatch)
	}
	return nil
}

func critical(c *x509.Certificate, id asn1.ObjectIdentifier) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(id) {
			return e.Critical
		}
	}
	return false
}
