package pades

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/pdf"
)

// signingTime is the signing time of the tests.
var signingTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// chain is a leaf certificate with its key, and the root that issued it.
type chain struct {
	key  crypto.Signer
	leaf *x509.Certificate
	root *x509.Certificate

	rootKey crypto.Signer
}

// shape describes a chain.
type shape struct {
	name    string
	key     crypto.Signer // nil means a new P-256 key
	from    time.Time     // zero means an hour before signingTime
	until   time.Time     // zero means 30 years after signingTime
	eku     []asn1.ObjectIdentifier
	stamper bool // whether the leaf is for time stamping
	fixed   byte // if not 0, the keys are derived from this number and signatures are deterministic
}

// newKey returns a new key on the curve.
func newKey(tb testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// fixedKey makes deterministic signatures, so that all processes of a fuzz
// target have the same seeds.
type fixedKey struct{ *ecdsa.PrivateKey }

// Sign signs deterministically (RFC 6979).
func (k fixedKey) Sign(_ io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	return k.PrivateKey.Sign(nil, digest, options)
}

// newFixedKey returns the P-256 key with the given private scalar.
func newFixedKey(tb testing.TB, scalar byte) fixedKey {
	tb.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), append(make([]byte, 31), scalar))
	if err != nil {
		tb.Fatal(err)
	}
	return fixedKey{key}
}

// newChain returns a new chain of the given shape.
func newChain(tb testing.TB, s shape) chain {
	tb.Helper()
	if s.from.IsZero() {
		s.from = signingTime.Add(-time.Hour)
	}
	if s.until.IsZero() {
		s.until = signingTime.AddDate(30, 0, 0)
	}
	if s.key == nil {
		s.key = newKey(tb, elliptic.P256())
	}
	var rootKey crypto.Signer = newKey(tb, elliptic.P256())
	if s.fixed > 0 {
		s.key, rootKey = newFixedKey(tb, s.fixed), newFixedKey(tb, s.fixed+1)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: s.name + " root"}, NotBefore: s.from, NotAfter: s.from.AddDate(40, 0, 0),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root := issue(tb, template, template, rootKey.Public(), rootKey)
	template = &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: s.name}, NotBefore: s.from, NotAfter: s.until,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment, UnknownExtKeyUsage: s.eku,
	}
	if s.stamper {
		template.ExtraExtensions = []pkix.Extension{timeStamping()}
	}
	return chain{s.key, issue(tb, template, root, s.key.Public(), rootKey), root, rootKey}
}

// issue returns a certificate that is signed by the key of parent.
func issue(tb testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	tb.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c chain) signer() *Signer {
	return &Signer{Key: c.key, Chain: []*x509.Certificate{c.leaf, c.root}}
}

func (c chain) options() Options {
	return Options{Roots: []*x509.Certificate{c.root}, Now: signingTime.Add(time.Minute)}
}

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// authority is a time-stamp authority in the process of the test.
type authority struct {
	chain

	change func(info, token []byte) []byte // changes the token if not nil
	status byte
	err    error
	nonce  *big.Int // replaces the requested nonce if not nil
	calls  int
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	return &authority{chain: newChain(tb, shape{name: "Test TSA", stamper: true})}
}

// newFixedAuthority returns an authority with fixed keys.
func newFixedAuthority(tb testing.TB) *authority {
	tb.Helper()
	return &authority{chain: newChain(tb, shape{name: "Test TSA", stamper: true, fixed: 3})}
}

// certify replaces the certificate of the authority by a certificate with the given extensions.
func (a *authority) certify(tb testing.TB, extensions ...pkix.Extension) {
	tb.Helper()
	a.leaf = issue(tb, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: a.leaf.Subject, NotBefore: a.leaf.NotBefore, NotAfter: a.leaf.NotAfter,
		ExtraExtensions: extensions, KeyUsage: x509.KeyUsageDigitalSignature,
	}, a.root, a.key.Public(), a.rootKey)
}

// respond returns the TimeStampResp to the request (RFC 3161, 2.4.2).
func (a *authority) respond(_ context.Context, request []byte) ([]byte, error) {
	a.calls++
	if a.err != nil {
		return nil, a.err
	}
	if a.status > 1 {
		return tlv(tagSequence, tlv(tagSequence, []byte{tagInteger, 1, a.status}, tlv(tagSequence, tlv(tagUTF8String, []byte("too\x07 busy"))))), nil
	}
	d := der(request)
	body, err := d.next(tagSequence)
	if err != nil {
		return nil, err
	}
	if _, err := body.small(); err != nil {
		return nil, err
	}
	imprint, err := body.whole(tagSequence)
	if err != nil {
		return nil, err
	}
	nonce, err := body.integer()
	if err != nil {
		return nil, err
	}
	if a.nonce != nil {
		nonce = a.nonce
	}
	info := tlv(tagSequence, []byte{tagInteger, 1, 1}, derOID(asn1.ObjectIdentifier{1, 2, 3, 4, 1}), imprint, derInteger(big.NewInt(int64(a.calls))),
		tlv(tagGeneralizedTime, []byte(signingTime.Add(1500*time.Millisecond).Format("20060102150405.9Z"))), derInteger(nonce))
	token, err := a.token(info)
	if err != nil {
		return nil, err
	}
	if a.change != nil {
		token = a.change(info, token)
	}
	return tlv(tagSequence, tlv(tagSequence, []byte{tagInteger, 1, 0}), token), nil
}

// token returns SignedData over TSTInfo.
func (a *authority) token(info []byte) ([]byte, error) {
	digest, certificate := sha256.Sum256(info), sha256.Sum256(a.leaf.Raw)
	attributes := tlv(tagSet,
		derAttribute(derOID(oidContentType), derOID(oidTSTInfo)),
		derAttribute(derOID(oidMessageDigest), tlv(tagOctetString, digest[:])),
		derAttribute(derOID(oidSigningCertificateV2), tlv(tagSequence, tlv(tagSequence, tlv(tagSequence, tlv(tagOctetString, certificate[:]))))))
	sum := sha256.Sum256(attributes)
	signature, err := a.key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return nil, err
	}
	signer := tlv(tagSequence, []byte{tagInteger, 1, 1}, tlv(tagSequence, a.leaf.RawIssuer, derInteger(a.leaf.SerialNumber)), derAlgorithm(oidSHA256),
		retag(attributes, tagContextCons), derAlgorithm(oidECDSASHA256), tlv(tagOctetString, signature))
	signed := tlv(tagSequence, []byte{tagInteger, 1, 3}, tlv(tagSet, derAlgorithm(oidSHA256)),
		tlv(tagSequence, derOID(oidTSTInfo), tlv(tagContextCons, tlv(tagOctetString, info))),
		tlv(tagContextCons, a.leaf.Raw), tlv(tagSet, signer))
	return tlv(tagSequence, derOID(oidSignedData), tlv(tagContextCons, signed)), nil
}

// onePage returns a PDF of one page.
func onePage(tb testing.TB) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := pdf.NewWriter(&out)
	pages := w.Reserve()
	page := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")}, pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: 200, Y1: 100}.Array()},
		pdf.Entry{Key: "Contents", Value: w.Add(pdf.NewStream(nil, []byte("0 0 10 10 re f")))},
	))
	w.Set(pages, pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Pages")}, pdf.Entry{Key: "Kids", Value: pdf.Array{page}}, pdf.Entry{Key: "Count", Value: pdf.Integer(1)}))
	if err := w.Close(w.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: pages})), pdf.Ref{}); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// signTail returns the update that signs a file. If edit is not nil, the update
// also contains the changes that edit makes to the first page. signTail tries a
// second time after ErrReserve.
func signTail(file []byte, s *Signer, edit func(u *pdf.Update, page *pdf.Page)) ([]byte, error) {
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	page, err := doc.Page(0)
	if err != nil {
		return nil, err
	}
	for attempt := 0; ; attempt++ {
		u := doc.Update()
		if edit != nil {
			edit(u, page)
		}
		p, err := s.Prepare(u, doc, doc.Inspect(), page, Statement{
			Name: "Test University", Time: signingTime,
			Original: Original{Form: Prefix, Length: int64(len(file)), SHA256: sha256.Sum256(file), ReferenceID: "NWU-0123456789ABCDEF"},
		})
		if err != nil {
			return nil, err
		}
		tail, err := u.Bytes()
		if err != nil {
			return nil, err
		}
		err = p.Complete(context.Background(), BaseFile{R: bytes.NewReader(file), Size: int64(len(file))}, tail)
		if errors.Is(err, ErrReserve) && attempt == 0 {
			continue
		}
		return tail, err
	}
}

// sign returns the signed file.
func sign(tb testing.TB, file []byte, s *Signer) []byte {
	tb.Helper()
	tail, err := signTail(file, s, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return append(bytes.Clone(file), tail...)
}

// stamped adds content to a page, as a stamp does.
func stamped(u *pdf.Update, page *pdf.Page) {
	contents := pdf.Array(page.Contents())
	u.SetPage(page, page.Dict.Clone().Set("Contents", append(contents, u.Add(pdf.NewStream(nil, []byte("q 0 0 5 5 re f Q"))))))
}

func verify(tb testing.TB, file []byte, o Options) *Report {
	tb.Helper()
	report, err := Verify(bytes.NewReader(file), int64(len(file)), o)
	if err != nil {
		tb.Fatal(err)
	}
	return report
}

// requireValid fails the test unless the file is valid.
func requireValid(tb testing.TB, file []byte, o Options) *Report {
	tb.Helper()
	report := verify(tb, file, o)
	if report.Verdict != Valid {
		tb.Fatalf("verdict = %s (%s), want Valid\n%+v", report.Verdict, report.Reason, report.Signatures)
	}
	return report
}

// skip skips a test whose tool or files are missing, or fails it in CI.
func skip(tb testing.TB, reason string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatal(reason)
	}
	tb.Skip(reason)
}

// tool returns the path of an external tool. If the tool is missing, the test is
// skipped; in CI it fails.
func tool(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		skip(tb, name+" is not installed")
	}
	return path
}

// run runs a tool and returns its output.
func run(tb testing.TB, name string, args ...string) (string, error) {
	tb.Helper()
	out, err := exec.Command(tool(tb, name), args...).CombinedOutput() //nolint:noctx // the tools do not wait for anything
	return string(out), err
}

// write writes a temporary file of the test.
func write(tb testing.TB, name string, data []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func writePEM(tb testing.TB, name string, c *x509.Certificate) string {
	tb.Helper()
	return write(tb, name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// bigExtension returns an extension of n bytes.
func bigExtension(n int) pkix.Extension {
	return pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3, 4, 5}, Value: tlv(tagOctetString, make([]byte, n))}
}

// timeStamping returns the extended key usage of a time-stamp authority.
func timeStamping() pkix.Extension {
	value := tlv(tagSequence, derOID(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 8}))
	return pkix.Extension{Id: oidExtKeyUsage, Critical: true, Value: value}
}
