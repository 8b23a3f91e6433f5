package authority

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certvault/certvault/internal/db/dbtest"
	"github.com/certvault/certvault/internal/pades"
	"github.com/certvault/certvault/internal/pdf"
)

// onePage returns a PDF of one page.
func onePage(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pdf.NewWriter(&out)
	pages := w.Reserve()
	page := w.Add(pdf.NewDict(
		pdf.Entry{Key: "Type", Value: pdf.Name("Page")}, pdf.Entry{Key: "Parent", Value: pages},
		pdf.Entry{Key: "MediaBox", Value: pdf.Rectangle{X1: 200, Y1: 100}.Array()},
	))
	w.Set(pages, pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Pages")}, pdf.Entry{Key: "Kids", Value: pdf.Array{page}}, pdf.Entry{Key: "Count", Value: pdf.Integer(1)}))
	if err := w.Close(w.Add(pdf.NewDict(pdf.Entry{Key: "Type", Value: pdf.Name("Catalog")}, pdf.Entry{Key: "Pages", Value: pages})), pdf.Ref{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// signed returns a PDF that the institution signed at a time.
func signed(t *testing.T, a *Authority, at time.Time) []byte {
	t.Helper()
	file := onePage(t)
	doc, err := pdf.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	page, err := doc.Page(0)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := a.Signer(t.Context(), university)
	if err != nil {
		t.Fatal(err)
	}
	chain := signer.Chain
	s := &pades.Signer{Key: signer.Key, Chain: chain}
	u := doc.Update()
	p, err := s.Prepare(u, doc, doc.Inspect(), page, pades.Statement{
		Name: chain[0].Subject.CommonName, Time: at,
		Original: pades.Original{Form: pades.Prefix, Length: int64(len(file)), SHA256: sha256.Sum256(file)},
	})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := u.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Complete(t.Context(), pades.BaseFile{R: bytes.NewReader(file), Size: int64(len(file))}, tail); err != nil {
		t.Fatal(err)
	}
	return append(file, tail...)
}

// Viewers accept the root: pdfsig, with the roots in an NSS database, reports a valid and trusted
// signature, and pades.Verify reports a valid signature. This is also the case for a file that was
// signed before a rotation.
func TestViewersTrustTheRoot(t *testing.T) {
	t.Parallel()
	requireTools(t, "pdfsig", "certutil")
	dir, now := t.TempDir(), time.Now()
	o := options()
	o.Now = func() time.Time { return now }
	a := open(t, dbtest.SQLite(t), o)
	if err := a.Create(t.Context(), university, "Universität Ü, www.example.org", nil); err != nil {
		t.Fatal(err)
	}
	files := [][]byte{signed(t, a, now)}
	if err := a.RotateRoot(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Rotate(t.Context(), university, "Universität Ü", nil); err != nil {
		t.Fatal(err)
	}
	files = append(files, signed(t, a, now))
	roots, err := a.Roots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nss := filepath.Join(dir, "nss")
	if err := os.Mkdir(nss, 0o700); err != nil {
		t.Fatal(err)
	}
	certutil := [][]string{{"-N", "-d", "sql:" + nss, "--empty-password"}}
	for _, root := range roots {
		path := filepath.Join(dir, root.SerialNumber.String())
		if err := os.WriteFile(path, root.Raw, 0o600); err != nil {
			t.Fatal(err)
		}
		certutil = append(certutil, []string{"-A", "-d", "sql:" + nss, "-n", root.SerialNumber.String(), "-t", "CT,C,C", "-i", path})
	}
	for _, args := range certutil {
		if out, err := exec.CommandContext(t.Context(), "certutil", args...).CombinedOutput(); err != nil {
			t.Fatalf("preparing the NSS database with certutil: %v: %s", err, out)
		}
	}
	for _, file := range files {
		path := filepath.Join(dir, "signed.pdf")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "pdfsig", "-nssdir", nss, path).CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "Signature is Valid.") || !strings.Contains(text, "Certificate is Trusted.") ||
			!strings.Contains(text, "Total document signed") {
			t.Errorf("pdfsig does not report a valid and trusted signature of the whole file: %v: %s", err, text)
		}
		report, err := pades.Verify(bytes.NewReader(file), int64(len(file)), pades.Options{Roots: roots, Now: now})
		if err != nil || report.Verdict != pades.Valid {
			t.Errorf("pades.Verify = %+v, error %v; want valid", report, err)
		}
	}
}
